#include "cellfeed/zarr/codec_chain.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/crc.h"
#include "cellfeed/io/unsized.h"

namespace cellfeed::zarr {
namespace {

constexpr std::size_t kCrcBytes = 4;

struct CodecTraits {
  std::string_view name;
  // No more bytes than this come of one stored byte.
  std::uint64_t max_expansion;
};

CodecTraits traits_of(CodecKind kind) {
  switch (kind) {
    case CodecKind::kZlib:
      return {"zlib", 1100};
    case CodecKind::kGzip:
      return {"gzip", 1100};
    case CodecKind::kZstd:
      return {"zstd", 1 << 16};  // 128 KiB of one byte repeated take three bytes
    case CodecKind::kBlosc:
      return {"blosc", 1 << 16};
    case CodecKind::kLz4:
      return {"lz4", 300};
    case CodecKind::kShuffle:
      return {"shuffle", 1};
    case CodecKind::kCrc32c:
      return {"crc32c", 1};
  }
  return {};
}

std::span<const std::byte> check_crc(std::span<const std::byte> in, const io::ChunkOrigin& origin) {
  if (in.size() < kCrcBytes)
    io::throw_damaged_chunk(origin, fmt::format("{} bytes are too few for a CRC-32C", in.size()));
  const auto data = in.first(in.size() - kCrcBytes);
  const auto stored = io::read_little_endian(in.last(kCrcBytes));
  const std::uint32_t computed = io::crc32c(data);
  if (stored != computed)
    io::throw_damaged_chunk(
        origin, fmt::format("its CRC-32C is {:08x}, the chunk says {:08x}", computed, stored));
  return data;
}

void unshuffle_exactly(std::span<const std::byte> in, std::span<std::byte> out,
                       std::size_t element_bytes, const io::ChunkOrigin& origin) {
  if (in.size() != out.size())
    io::throw_damaged_chunk(
        origin, fmt::format("shuffled data has {} bytes, {} are promised", in.size(), out.size()));
  io::unshuffle(in, out, element_bytes);
}

void undo(const Codec& codec, std::span<const std::byte> in, std::span<std::byte> out,
          const io::ChunkOrigin& origin) {
  switch (codec.kind) {
    case CodecKind::kZlib:
      return io::inflate_zlib(in, out, origin);
    case CodecKind::kGzip:
      return io::inflate_gzip(in, out, origin);
    case CodecKind::kZstd:
      return io::decode_zstd(in, out, origin);
    case CodecKind::kBlosc:
      return io::decode_blosc(in, out, origin);
    case CodecKind::kLz4:
      return io::decode_lz4_numcodecs(in, out, origin);
    case CodecKind::kShuffle:
      return unshuffle_exactly(in, out, codec.element_bytes, origin);
    case CodecKind::kCrc32c:
      break;
  }
}

std::vector<std::byte> undo_any(const Codec& codec, std::span<const std::byte> in,
                                std::size_t max_bytes, const io::ChunkOrigin& origin) {
  switch (codec.kind) {
    case CodecKind::kZlib:
      return io::inflate_any(in, max_bytes, false, origin);
    case CodecKind::kGzip:
      return io::inflate_any(in, max_bytes, true, origin);
    case CodecKind::kZstd:
      return io::decode_any_zstd(in, max_bytes, origin);
    case CodecKind::kBlosc:
      return io::decode_any_blosc(in, max_bytes, origin);
    case CodecKind::kLz4:
      return io::decode_any_lz4(in, max_bytes, origin);
    case CodecKind::kShuffle: {
      std::vector<std::byte> out(in.size());
      io::unshuffle(in, out, codec.element_bytes);
      return out;
    }
    case CodecKind::kCrc32c:
      break;
  }
  return {};
}

void copy_exactly(std::span<const std::byte> in, std::span<std::byte> out,
                  const io::ChunkOrigin& origin) {
  if (in.size() != out.size())
    io::throw_damaged_chunk(origin,
                            fmt::format("it has {} bytes, {} are promised", in.size(), out.size()));
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
}

}  // namespace

std::string CodecChain::name() const {
  std::string text;
  for (const Codec& codec : codecs_) {
    if (!text.empty()) text.push_back('+');
    text += traits_of(codec.kind).name;
  }
  return text.empty() ? "none" : text;
}

bool CodecChain::can_expand(std::uint64_t stored_bytes, std::uint64_t n_bytes) const {
  std::uint64_t most = 1;
  for (const Codec& codec : codecs_) most = std::max(most, traits_of(codec.kind).max_expansion);
  return n_bytes / most <= stored_bytes;
}

std::uint64_t CodecChain::most_stored_bytes(std::uint64_t n_bytes) {
  constexpr std::uint64_t kFraming = std::uint64_t{1} << 20;
  return n_bytes + n_bytes / 4 + kFraming;
}

void CodecChain::decode(std::span<const std::byte> stored, std::span<std::byte> out,
                        const io::ChunkOrigin& origin) const {
  // Sizes before each codec, as far as they follow from the result's.
  std::vector<std::optional<std::size_t>> sizes{out.size()};
  for (const Codec& codec : codecs_) {
    std::optional<std::size_t> size = sizes.back();
    if (codec.kind == CodecKind::kCrc32c && size)
      *size += kCrcBytes;
    else if (codec.kind != CodecKind::kShuffle)
      size.reset();
    sizes.push_back(size);
  }
  const std::size_t max_bytes = most_stored_bytes(out.size());
  std::vector<std::byte> held;
  std::span<const std::byte> in = stored;
  for (std::size_t i = codecs_.size(); i-- > 0;) {
    if (codecs_[i].kind == CodecKind::kCrc32c) {
      in = check_crc(in, origin);
      continue;
    }
    if (i == 0) return undo(codecs_[0], in, out, origin);
    std::vector<std::byte> next(sizes[i].value_or(0));
    if (sizes[i])
      undo(codecs_[i], in, next, origin);
    else
      next = undo_any(codecs_[i], in, max_bytes, origin);
    held = std::move(next);
    in = held;
  }
  copy_exactly(in, out, origin);
}

std::vector<std::byte> CodecChain::decode_any(std::span<const std::byte> stored,
                                              std::size_t max_bytes,
                                              const io::ChunkOrigin& origin) const {
  std::vector<std::byte> held;
  std::span<const std::byte> in = stored;
  for (std::size_t i = codecs_.size(); i-- > 0;) {
    if (codecs_[i].kind == CodecKind::kCrc32c) {
      in = check_crc(in, origin);
      continue;
    }
    auto next = undo_any(codecs_[i], in, max_bytes, origin);
    held = std::move(next);
    in = held;
  }
  return in.data() == held.data() && in.size() == held.size()
             ? std::move(held)
             : std::vector<std::byte>(in.begin(), in.end());
}

}  // namespace cellfeed::zarr
