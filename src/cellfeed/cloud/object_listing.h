// A part of the objects of a bucket, as a store lists them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/http/http_object.h"

namespace cellfeed::cloud {

struct ListedObject {
  std::string key;
  ObjectVersion version;
};

struct ObjectListing {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders;  // common prefixes, each ends in a slash
  std::string next;                  // a token; empty: this was the last part
};

struct ListedUpload {
  std::string key;
  std::string id;
};

// A part of the uploads in parts that were begun and not ended.
struct UploadListing {
  std::vector<ListedUpload> uploads;
  std::string next_key, next_id;  // where the rest begins; no key: this was the last part
};

// All throw kIo naming `path` where the text is no such list.

// Of S3: ListObjectsV2 with encoding-type=url.
ObjectListing parse_s3_listing(std::string_view xml, const std::string& path);
// Of S3: ListMultipartUploads with encoding-type=url.
UploadListing parse_s3_uploads(std::string_view xml, const std::string& path);
// Of Azure: List Blobs.
ObjectListing parse_azure_listing(std::string_view xml, const std::string& path);
// Of Google: Objects: list.
ObjectListing parse_google_listing(std::string_view json, const std::string& path);

// "2026-01-31T10:20:30Z" as seconds since 1970; -1 where it is none.
std::int64_t parse_iso_time(std::string_view text);

}  // namespace cellfeed::cloud
