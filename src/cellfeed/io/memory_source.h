// MemorySource: bytes held in memory; the reference implementation of ByteSource.
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

std::unique_ptr<ByteSource> make_memory_source(std::string path, std::vector<std::byte> bytes);

}  // namespace cellfeed::io
