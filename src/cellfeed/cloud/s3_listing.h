// What a request for a list of objects answers with. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/http_object.h"

namespace cellfeed::cloud {

struct ListedObject {
  std::string key;
  ObjectVersion version;
};

struct S3Listing {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders;  // common prefixes, each ends in a slash
  std::string next;                  // a token; empty: this was the last part
};

// Of ListObjectsV2 with encoding-type=url. Throws kIo naming `path` where it is no such list.
S3Listing parse_s3_listing(std::string_view xml, const std::string& path);

}  // namespace cellfeed::cloud
