// The file system of paths of buckets.
#pragma once

#include <memory>

#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {

std::shared_ptr<const io::FileSystem> make_bucket_file_system();

}  // namespace cellfeed::cloud
