// Bitshuffle: bit planes of a block of elements back to elements, and the framing of blocks that
// were compressed after it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/codecs.h"

namespace cellfeed::io {
namespace {

// Blocks hold a multiple of so many elements; those that are left over at the end are not shuffled.
constexpr std::size_t kGroup = 8;

// A block of about 8 KiB, 128 elements at least.
std::size_t default_block_elements(std::size_t element_bytes) {
  constexpr std::size_t kTargetBytes = 8192, kMinElements = 128;
  return std::max(kTargetBytes / element_bytes / kGroup * kGroup, kMinElements);
}

// Rows and columns of 8 x 8 bits change places (Hacker's Delight, 7-3).
std::uint64_t transpose_bits(std::uint64_t x) {
  std::uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aau;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000cccc0000ccccu;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0u;
  return x ^ t ^ (t << 28);
}

// in: for each byte of an element and each of its bits, from the lowest, one row with that bit of
// all elements. REQUIRES: count is a multiple of 8.
void unshuffle_bits(const std::byte* in, std::byte* out, std::size_t count, std::size_t width) {
  const std::size_t row = count / kGroup;
  for (std::size_t plane = 0; plane < width; ++plane) {
    const std::byte* const bits = in + plane * 8 * row;
    for (std::size_t group = 0; group < row; ++group) {
      std::uint64_t x = 0;
      for (std::size_t bit = 0; bit < 8; ++bit)
        x |= std::to_integer<std::uint64_t>(bits[bit * row + group]) << (8 * bit);
      x = transpose_bits(x);
      for (std::size_t i = 0; i < kGroup; ++i)
        out[(group * kGroup + i) * width + plane] = static_cast<std::byte>(x >> (8 * i));
    }
  }
}

// Takes what a codec made of the blocks apart; without a codec, blocks stand one after another.
class Blocks {
 public:
  Blocks(std::span<const std::byte> in, BitshuffleCodec codec, std::size_t max_block_bytes,
         const ChunkOrigin& origin)
      : in_(in), codec_(codec), origin_(origin) {
    if (codec_ != BitshuffleCodec::kNone) scratch_.resize(max_block_bytes);
  }
  // The next `bytes` bytes of shuffled data.
  const std::byte* next(std::size_t bytes) {
    if (codec_ == BitshuffleCodec::kNone) return take(bytes).data();
    const auto stored = static_cast<std::size_t>(read_big_endian(take(4)));
    const std::span<std::byte> block(scratch_.data(), bytes);
    if (codec_ == BitshuffleCodec::kLz4)
      decode_lz4_block(take(stored), block, origin_);
    else
      decode_zstd(take(stored), block, origin_);
    return block.data();
  }
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > in_.size())
      throw_damaged_chunk(origin_, fmt::format("bitshuffle data ends early: {} bytes wanted, {} "
                                               "left",
                                               bytes, in_.size()));
    const auto taken = in_.first(bytes);
    in_ = in_.subspan(bytes);
    return taken;
  }

 private:
  std::span<const std::byte> in_;
  const BitshuffleCodec codec_;
  const ChunkOrigin& origin_;
  std::vector<std::byte> scratch_;
};

// Big-endian: data size (8 bytes), block size in bytes (4). Returns the latter.
std::size_t check_frame(std::span<const std::byte> in, std::size_t out_bytes,
                        const ChunkOrigin& origin) {
  constexpr std::size_t kHeaderBytes = 12;
  if (in.size() < kHeaderBytes)
    throw_damaged_chunk(origin, fmt::format("bitshuffle frame of {} bytes", in.size()));
  const std::uint64_t promised = read_big_endian(in.first(8));
  if (promised != out_bytes)
    throw_damaged_chunk(origin, fmt::format("bitshuffle frame holds {} bytes, {} are promised",
                                            promised, out_bytes));
  return static_cast<std::size_t>(read_big_endian(in.subspan(8, 4)));
}

}  // namespace

void decode_bitshuffle(std::span<const std::byte> in, std::span<std::byte> out,
                       const BitshuffleOptions& options, const ChunkOrigin& origin) {
  const std::size_t width = options.element_bytes;
  std::size_t block_elements = options.block_elements;
  if (width == 0 || out.size() % width != 0)
    throw_damaged_chunk(
        origin, fmt::format("bitshuffle of {} bytes, elements of {} bytes", out.size(), width));
  if (options.codec != BitshuffleCodec::kNone) {
    block_elements = check_frame(in, out.size(), origin) / width;
    in = in.subspan(12);
  }
  if (block_elements == 0) block_elements = default_block_elements(width);
  if (block_elements % kGroup != 0)
    throw_damaged_chunk(origin, fmt::format("bitshuffle blocks of {} elements", block_elements));
  std::size_t left = out.size() / width;
  Blocks blocks(in, options.codec, std::min(block_elements, left) * width, origin);
  std::byte* target = out.data();
  while (left >= kGroup) {
    const std::size_t count = std::min(block_elements, left / kGroup * kGroup);
    unshuffle_bits(blocks.next(count * width), target, count, width);
    target += count * width;
    left -= count;
  }
  if (left == 0) return;
  const auto rest = blocks.take(left * width);
  std::memcpy(target, rest.data(), rest.size());
}

}  // namespace cellfeed::io
