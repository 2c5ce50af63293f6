// The file system of http:// and https:// paths, which are read and not written.
#pragma once

#include <memory>

#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {

std::shared_ptr<const io::FileSystem> make_http_file_system();

}  // namespace cellfeed::cloud
