// The schemes of paths that lead to buckets and servers.
#pragma once

namespace cellfeed::cloud {

// Makes them known to io::FileSystem, once in a process. Thread-safe. Nothing is reached by it.
void register_schemes();

}  // namespace cellfeed::cloud
