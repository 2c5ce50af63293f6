// The bytes of a dense shard (docs/format/shard.md, "Dense file"): two arrays in numpy's .npy
// format, version 1.0, one behind the other: the values, and a checksum of each block of rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cellfeed::format::shard {

inline constexpr std::int64_t kNpyHeaderBytes = 128;  // data begins here: aligned for any vector
// A block is as many whole rows as fit, and at least one: small, because the first read of any of
// its rows hashes all of it.
inline constexpr std::int64_t kDenseBlockBytes = 16 << 10;

// Where the parts of a dense file lie; all follows from its shape.
struct DenseLayout {
  // Throws kCorruptData for a shape whose file would be larger than files can be.
  DenseLayout(std::int64_t n_rows, std::int64_t n_cols, const std::string& path);

  std::int64_t n_rows;
  std::int64_t n_cols;
  std::int64_t row_bytes;
  std::int64_t rows_per_block;
  std::int64_t n_blocks;
  std::int64_t values_end;       // values begin at kNpyHeaderBytes
  std::int64_t checksums_begin;  // behind a header of their own; u64 each
  std::int64_t file_bytes;

  std::int64_t block_begin(std::int64_t block) const {
    return kNpyHeaderBytes + block * rows_per_block * row_bytes;
  }
  std::int64_t block_end(std::int64_t block) const {
    return block + 1 < n_blocks ? block_begin(block + 1) : values_end;
  }
};

std::string values_header(std::int64_t n_rows, std::int64_t n_cols);  // kNpyHeaderBytes long
std::string checksums_header(std::int64_t n_blocks);                  // kNpyHeaderBytes long
// Throws kCorruptData unless both headers and the file's length are those of the layout.
void check_dense_file(const DenseLayout& layout, std::span<const std::byte> values_header_bytes,
                      std::span<const std::byte> checksums_header_bytes, std::int64_t file_bytes,
                      const std::string& path);

}  // namespace cellfeed::format::shard
