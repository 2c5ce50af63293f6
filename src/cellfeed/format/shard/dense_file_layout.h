// The bytes of a dense shard: numpy's .npy, version 1.0, float32, C order, with a header of a fixed
// length.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cellfeed::format::shard {

inline constexpr std::int64_t kNpyHeaderBytes = 128;  // data begins here: aligned for any vector

std::string npy_header(std::int64_t n_rows, std::int64_t n_cols);  // kNpyHeaderBytes long
// Throws kCorruptData unless the header is that of float32 rows of n_rows x n_cols and the file
// holds just these. bytes: the start of the file. Returns where data begins.
std::int64_t parse_npy_header(std::span<const std::byte> bytes, std::int64_t n_rows,
                              std::int64_t n_cols, std::int64_t file_bytes,
                              const std::string& path);

}  // namespace cellfeed::format::shard
