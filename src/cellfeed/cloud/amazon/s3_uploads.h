// Uploads in parts that were begun in a bucket of S3 and not ended: what dead writers left.
#pragma once

#include <functional>
#include <string_view>

#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::cloud {

// As ObjectStore::remove_unfinished_uploads says. Throws kNotFound where there is no such bucket.
io::UnfinishedUploads remove_s3_uploads(const BucketPath& folder,
                                        const std::function<bool(std::string_view name)>& is_ours);

}  // namespace cellfeed::cloud
