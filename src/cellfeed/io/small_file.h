// Files that are read whole, with a bound: manifests, journals, vocabularies.
#pragma once

#include <cstdint>
#include <string>

namespace cellfeed::io {

// The bytes of a regular file. Throws kNotFound, kIo (not a regular file, no permission), or
// kCorruptData where it holds more than max_bytes, before reading any.
std::string read_small_file(const std::string& path, std::int64_t max_bytes);

}  // namespace cellfeed::io
