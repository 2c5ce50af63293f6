// Room in a folder of caches whose size is limited, for those who fill it little by little: it is
// looked for once for many blocks. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace cellfeed::cloud {

// False where the caches there would hold more than `limit`, though what nobody uses was removed.
// Where several processes fill one folder they may exceed it by a sixteenth each, 64 MiB at most.
// Throws kIo.
bool take_room(const std::string& folder, std::int64_t bytes, std::int64_t limit);

}  // namespace cellfeed::cloud
