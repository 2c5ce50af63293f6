// What is asked of a bucket of S3 besides ranges. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/http_object.h"
#include "cellfeed/cloud/s3_listing.h"
#include "cellfeed/cloud/staged_file.h"
#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {

// All throw kIo where the store refuses or cannot be reached, and kNotFound where there is no such
// bucket.

// Empty where there is no such object.
std::optional<ObjectVersion> look_at_object(const BucketPath& path);
// The same, or as it was a moment ago.
std::optional<ObjectVersion> recall_object(const BucketPath& path);
// A part of the objects whose keys begin so; behind the next slash they are folders.
S3Listing list_objects(const std::string& bucket, const std::string& prefix, bool into_folders,
                       int max_keys, const std::string& token);
bool holds_objects(const BucketPath& folder);
std::string read_object(const BucketPath& path);
// False where it is there already and is_new was asked for.
bool write_object(const BucketPath& path, const StagedFile::Content& content, bool is_new);
// False where it is no longer of this version. Of small contents.
bool replace_object(const BucketPath& path, const StagedFile::Content& content,
                    const ObjectVersion& replaced);
// What is not there is no error.
void remove_object(const BucketPath& path);

}  // namespace cellfeed::cloud
