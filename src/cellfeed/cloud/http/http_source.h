// The bytes of an object that is read by ranges over HTTP, as a ByteSource.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {

// backend: what backend_name() says, "http". Lifetime: a literal.
std::unique_ptr<io::ByteSource> make_http_source(std::shared_ptr<const HttpObject> object,
                                                 std::string_view backend);

// What is said of a path that leads to this version.
io::PathStatus status_of_object(const std::string& path, const ObjectVersion& version);
// And of one that objects lie below.
io::PathStatus status_of_folder(const std::string& path);

}  // namespace cellfeed::cloud
