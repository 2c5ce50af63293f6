// What is kept of objects in a folder of a local disk until they are another version: whole copies,
// each made once, by whichever process comes first, while others wait for it; or the blocks that
// are read. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::cloud {

// `remote` itself where the storage options of its bucket name no cache_dir. Else its copy there,
// made where there is none yet, with the path of `remote`; or, where they ask for that, `remote`
// through its blocks there. What is kept of its other versions goes. Throws what reading and
// writing throw, and kUnsupported where the server tells no version.
std::unique_ptr<io::ByteSource> cached_where_asked(std::unique_ptr<io::ByteSource> remote,
                                                   const BucketPath& path,
                                                   const ObjectVersion& version,
                                                   const io::LocalFileOptions& options);

// A copy, with the path of the object that it is of. Throws kNotFound where it is gone.
std::unique_ptr<io::ByteSource> open_as(const std::string& path, const io::Directory& directory,
                                        const std::string& copy,
                                        const io::LocalFileOptions& options);

}  // namespace cellfeed::cloud
