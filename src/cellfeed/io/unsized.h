// Decoders for data whose length nobody promises, such as texts: it says itself how long it is, or
// not at all. Hostile input as in codecs.h. Thread-safe: decoder state is per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/io/codecs.h"

namespace cellfeed::io {

// Each decodes all of `in`, or throws kCorruptData naming the origin; also where it holds more than
// max_bytes.
std::vector<std::byte> inflate_any(std::span<const std::byte> in, std::size_t max_bytes,
                                   bool is_gzip, const ChunkOrigin& origin = {});
// deflate without a header, as in zip files.
void inflate_raw(std::span<const std::byte> in, std::span<std::byte> out,
                 const ChunkOrigin& origin = {});
std::vector<std::byte> decode_any_zstd(std::span<const std::byte> in, std::size_t max_bytes,
                                       const ChunkOrigin& origin = {});
std::vector<std::byte> decode_any_blosc(std::span<const std::byte> in, std::size_t max_bytes,
                                        const ChunkOrigin& origin = {});
// An lz4 block behind its length as four bytes, the lowest first, as numcodecs writes it.
std::vector<std::byte> decode_any_lz4(std::span<const std::byte> in, std::size_t max_bytes,
                                      const ChunkOrigin& origin = {});
void decode_lz4_numcodecs(std::span<const std::byte> in, std::span<std::byte> out,
                          const ChunkOrigin& origin = {});

}  // namespace cellfeed::io
