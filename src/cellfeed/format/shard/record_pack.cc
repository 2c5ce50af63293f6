// Packing: exact choice of widths by a histogram of bit lengths, then bits by a 64-bit accumulator.
#include "cellfeed/format/shard/record_pack.h"

#include <algorithm>
#include <bit>

namespace cellfeed::format::shard::record {
namespace {

// Appends fields of bits, lowest bit first. Writes up to 8 bytes behind what is packed.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* to) : to_(to) {}

  void put(std::uint64_t field, int bits) {  // bits <= 48
    pending_ |= field << filled_;
    filled_ += bits;
    std::memcpy(to_, &pending_, sizeof(pending_));
    const int whole = filled_ >> 3;
    to_ += whole;
    filled_ &= 7;
    pending_ >>= 8 * whole;
  }
  std::uint8_t* finish() { return to_ + (filled_ > 0 ? 1 : 0); }

 private:
  std::uint8_t* to_;
  std::uint64_t pending_ = 0;
  int filled_ = 0;
};

}  // namespace

StreamWidths choose_widths(const std::uint32_t* numbers, int entries) {
  // Two histograms, so that equal neighbours do not wait for one another.
  std::uint8_t lengths[2][33] = {};
  std::uint32_t largest = 0;
  for (int i = 0; i < entries; ++i) {
    ++lengths[i & 1][std::bit_width(numbers[i])];
    largest = std::max(largest, numbers[i]);
  }
  const int max_bits = static_cast<int>(std::bit_width(largest));
  StreamWidths best{max_bits, 0, 0};
  std::size_t best_bytes = best.bytes(entries);
  int exceptions = 0;
  for (int bits = max_bits; bits-- > 0;) {
    exceptions += lengths[0][bits + 1] + lengths[1][bits + 1];
    if (exceptions > kMaxExceptions) break;
    const StreamWidths widths{bits, static_cast<int>(std::bit_width((largest >> bits) - 1)),
                              exceptions};
    if (widths.bytes(entries) < best_bytes) {
      best = widths;
      best_bytes = widths.bytes(entries);
    }
  }
  return best;
}

std::uint8_t* pack_stream(const std::uint32_t* numbers, int entries, StreamWidths widths,
                          std::uint8_t* to) {
  if (widths.base_bits > 0) {
    const std::uint32_t mask = (std::uint32_t{1} << widths.base_bits) - 1;
    BitWriter writer(to);
    for (int i = 0; i < entries; ++i) writer.put(numbers[i] & mask, widths.base_bits);
    to = writer.finish();
  }
  if (widths.exceptions > 0) {
    BitWriter writer(to);
    for (int i = 0; i < entries; ++i) {
      const std::uint32_t high = numbers[i] >> widths.base_bits;
      if (high == 0) continue;
      writer.put(static_cast<std::uint64_t>(i) | std::uint64_t{high - 1} << kPositionBits,
                 kPositionBits + widths.high_bits);
    }
    to = writer.finish();
  }
  return to;
}

}  // namespace cellfeed::format::shard::record
