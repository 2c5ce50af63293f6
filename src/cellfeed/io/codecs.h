// Codecs: decoders of the filters that chunked formats put on their data. Input is hostile: every
// read and write is bounds-checked, and output that is not exactly as long as promised is an error.
// Thread-safe: decoder state is per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cellfeed::io {

// Where encoded bytes come from; only for the text of errors.
struct ChunkOrigin {
  std::string_view path;
  std::int64_t offset = 0;
};

[[noreturn]] void throw_damaged_chunk(const ChunkOrigin& origin, std::string_view what);

// The bytes as one number, of which the first is the highest, or the lowest. REQUIRES: at most 8 of
// them.
std::uint64_t read_big_endian(std::span<const std::byte> bytes);
std::uint64_t read_little_endian(std::span<const std::byte> bytes);

// Each decodes all of `in` to exactly out.size() bytes, or throws kCorruptData naming the origin.
// in and out must not overlap.
void inflate_zlib(std::span<const std::byte> in, std::span<std::byte> out,
                  const ChunkOrigin& origin = {});  // HDF5 filter 1
void inflate_gzip(std::span<const std::byte> in, std::span<std::byte> out,
                  const ChunkOrigin& origin = {});
void decode_lzf(std::span<const std::byte> in, std::span<std::byte> out,
                const ChunkOrigin& origin = {});  // HDF5 filter 32000 (h5py)
void decode_zstd(std::span<const std::byte> in, std::span<std::byte> out,
                 const ChunkOrigin& origin = {});  // HDF5 filter 32015; one or more frames
void decode_lz4_block(std::span<const std::byte> in, std::span<std::byte> out,
                      const ChunkOrigin& origin = {});
void decode_lz4_hdf5(std::span<const std::byte> in, std::span<std::byte> out,
                     const ChunkOrigin& origin = {});  // HDF5 filter 32004, with its framing

void decode_blosc(std::span<const std::byte> in, std::span<std::byte> out,
                  const ChunkOrigin& origin = {});  // HDF5 filter 32001; one Blosc 1 buffer

// What comes after the bit shuffle of HDF5 filter 32008.
enum class BitshuffleCodec { kNone, kLz4, kZstd };
struct BitshuffleOptions {
  std::size_t element_bytes = 1;
  std::size_t block_elements = 0;  // 0: bitshuffle's own choice; a codec's framing says it itself
  BitshuffleCodec codec = BitshuffleCodec::kNone;
};
void decode_bitshuffle(std::span<const std::byte> in, std::span<std::byte> out,
                       const BitshuffleOptions& options, const ChunkOrigin& origin = {});

// Undoes the byte shuffle (HDF5 filter 2): byte planes back to elements; trailing bytes that fill
// no element are copied. REQUIRES: in.size() == out.size(), element_bytes > 0, no overlap.
void unshuffle(std::span<const std::byte> in, std::span<std::byte> out, std::size_t element_bytes);

// HDF5 filter 3: checks the four bytes at the end and returns the data before them. Throws
// kCorruptData.
std::span<const std::byte> check_fletcher32(std::span<const std::byte> in,
                                            const ChunkOrigin& origin = {});
// The checksum itself, as HDF5 computes it.
std::uint32_t fletcher32(std::span<const std::byte> data);

}  // namespace cellfeed::io
