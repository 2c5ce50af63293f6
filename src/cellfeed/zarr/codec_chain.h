// CodecChain: what was done to the bytes of a chunk before they were stored, undone in turn.
// Thread-safe: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/codecs.h"

namespace cellfeed::zarr {

enum class CodecKind { kZlib, kGzip, kZstd, kBlosc, kLz4, kShuffle, kCrc32c };

struct Codec {
  CodecKind kind = CodecKind::kZlib;
  std::size_t element_bytes = 1;  // kShuffle
};

class CodecChain {
 public:
  CodecChain() = default;
  // In the order of writing.
  explicit CodecChain(std::vector<Codec> codecs) : codecs_(std::move(codecs)) {}

  // "none", "shuffle+gzip".
  std::string name() const;
  // Whether so many bytes can come of those. Asked before there is memory for them.
  bool can_expand(std::uint64_t stored_bytes, std::uint64_t n_bytes) const;
  // What n_bytes are stored in at most, by any sound writer.
  static std::uint64_t most_stored_bytes(std::uint64_t n_bytes);
  // Memory beside the result that undoing takes, in chunks.
  std::int64_t n_buffers() const { return codecs_.size() > 1 ? 2 : 1; }

  // Exactly out.size() bytes. Throws kCorruptData naming the origin.
  void decode(std::span<const std::byte> stored, std::span<std::byte> out,
              const io::ChunkOrigin& origin) const;
  // As many as there are, at most max_bytes.
  std::vector<std::byte> decode_any(std::span<const std::byte> stored, std::size_t max_bytes,
                                    const io::ChunkOrigin& origin) const;

 private:
  std::vector<Codec> codecs_;
};

}  // namespace cellfeed::zarr
