// What is asked of a bucket besides ranges. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/object_store.h"

namespace cellfeed::cloud {

// All throw kIo where the store refuses or cannot be reached, and kNotFound where there is no such
// bucket.

// The answer to an authorized request, asked for again where it may be another later.
HttpAnswer ask_store(const BucketPath& path, const HttpRequest& request);
[[noreturn]] void throw_refused(const BucketPath& path, const HttpAnswer& answer);

// Whether it says that a condition of a request is not met.
bool is_unmet(const HttpAnswer& answer);

// Empty where there is no such object.
std::optional<ObjectVersion> look_at_object(const BucketPath& path);
// The same, or as it was a moment ago.
std::optional<ObjectVersion> recall_object(const BucketPath& path);
// Of this version, where the store tells one; asks for it where that was not said with the version.
std::optional<ContentChecksum> find_checksum(const BucketPath& path, const ObjectVersion& version);
ObjectListing list_objects(const BucketPath& bucket, const ListQuery& query);
bool holds_objects(const BucketPath& folder);
std::string read_object(const BucketPath& path);
// Both go on to their end where the StopScope of the caller ends: whether it was written is known.
// False where the condition is not met.
bool write_object(const BucketPath& path, const StagedFile::Content& content,
                  const Precondition& condition = {});
// What is not there is no error.
void remove_object(const BucketPath& path);
// Whether the object is these bytes.
bool is_stored(const BucketPath& path, const StagedFile::Content& content);

}  // namespace cellfeed::cloud
