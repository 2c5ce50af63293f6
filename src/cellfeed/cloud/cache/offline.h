// Buckets and servers that are offline: objects that are cached whole are read, and stores are not
// asked. Thread-safe.
#pragma once

#include <memory>

#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {

// `remote`; for paths of which is_offline() is true, the whole copies in their cache instead. If an
// object has copies of several versions, the one that was used last is read. Folders are those that
// `cellfeed cache fetch` has listed: whatever they held and is not cached is an error. Nothing is
// written there.
std::shared_ptr<const io::FileSystem> with_offline(std::shared_ptr<const io::FileSystem> remote);

}  // namespace cellfeed::cloud
