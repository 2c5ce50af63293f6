// Whole copies of objects in a folder of a local disk: an object is copied once, by whichever
// process comes first, while others wait for it, and read from there until it is another version.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/cloud/http_object.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::cloud {

// Its copy in the folder, made from `remote` where it is not there; copies of its other versions
// go. The source has the path of `remote`. Throws what reading and writing throw, and kUnsupported
// where the server tells no version.
std::unique_ptr<io::ByteSource> open_cached(std::unique_ptr<io::ByteSource> remote,
                                            const ObjectVersion& version, const std::string& folder,
                                            const io::LocalFileOptions& options);

}  // namespace cellfeed::cloud
