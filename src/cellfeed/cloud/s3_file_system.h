// The file system of s3:// paths.
#pragma once

#include <memory>

#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {

std::shared_ptr<const io::FileSystem> make_s3_file_system();

}  // namespace cellfeed::cloud
