// The file system of the operating system. Internal: callers use file_system_of.
#pragma once

#include "cellfeed/io/file_system.h"

namespace cellfeed::io {

const FileSystem& local_file_system();

}  // namespace cellfeed::io
