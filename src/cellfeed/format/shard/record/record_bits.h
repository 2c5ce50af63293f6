// How many bits each number of a block takes, and numbers as fields of bits: what every instruction
// set shares with the others. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cellfeed/format/shard/record/record_pack.h"

namespace cellfeed::format::shard::record {

// The best widths of a base of at least `least` bits when count_above(t) tells how many numbers are
// above t. REQUIRES: the largest number has at least as many.
template <typename CountAbove>
StreamWidths choose_widths(std::uint32_t largest, int entries, int least, CountAbove count_above) {
  const int max_bits = static_cast<int>(std::bit_width(largest));
  StreamWidths best{max_bits, 0, 0};
  std::size_t best_bytes = best.bytes(entries);
  for (int bits = max_bits; bits-- > least;) {
    const int exceptions = count_above((std::uint32_t{1} << bits) - 1);
    // Fewer bits only make more exceptions.
    if (exceptions > kMaxExceptions) break;
    const StreamWidths widths{bits, static_cast<int>(std::bit_width((largest >> bits) - 1)),
                              exceptions};
    if (widths.exception_bytes() >= best_bytes) break;
    const std::size_t bytes = widths.bytes(entries);
    if (bytes < best_bytes) {
      best = widths;
      best_bytes = bytes;
    }
  }
  return best;
}

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
  std::uint8_t* end() const { return to_ + (filled_ > 0 ? 1 : 0); }

 private:
  std::uint8_t* to_;
  std::uint64_t pending_ = 0;
  int filled_ = 0;
};

// Four numbers of at most 16 bits as one word.
inline std::uint64_t join_four(const std::uint32_t* numbers, std::uint32_t mask, int bits) {
  const std::uint64_t low = (numbers[0] & mask) | std::uint64_t{numbers[1] & mask} << bits;
  const std::uint64_t high = (numbers[2] & mask) | std::uint64_t{numbers[3] & mask} << bits;
  return low | high << (2 * bits);
}

inline constexpr int kMostBitsOfEight = 15;

// Eight numbers of at most kMostBitsOfEight; writes 16 bytes, of which `bits` count.
inline void pack_eight(const std::uint32_t* numbers, std::uint32_t mask, int bits,
                       std::uint8_t* to) {
  const std::uint64_t low = join_four(numbers, mask, bits);
  const std::uint64_t high = join_four(numbers + 4, mask, bits);
  const int whole = 4 * bits / 8;
  const int rest = 4 * bits % 8;
  const std::uint64_t next = (low >> (8 * whole)) | high << rest;
  std::memcpy(to, &low, sizeof(low));
  std::memcpy(to + whole, &next, sizeof(next));
}

inline void pack_base(const std::uint32_t* numbers, int entries, int bits, std::uint8_t* to) {
  const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
  if (bits <= kMostBitsOfEight) {
    for (int i = 0; i < entries; i += 8, to += bits) pack_eight(numbers + i, mask, bits, to);
    return;
  }
  BitWriter writer(to);
  for (int i = 0; i < entries; ++i) writer.put(numbers[i] & mask, bits);
}

inline void pack_exceptions(const std::uint32_t* numbers, const StreamPlan& plan,
                            std::uint8_t* to) {
  BitWriter writer(to);
  for (int half = 0; half < 2; ++half) {
    for (std::uint64_t left = plan.has_high[half]; left != 0; left &= left - 1) {
      const int position = 64 * half + std::countr_zero(left);
      const std::uint64_t high = (numbers[position] >> plan.widths.base_bits) - 1;
      writer.put(static_cast<std::uint64_t>(position) | high << kPositionBits,
                 kPositionBits + plan.widths.high_bits);
    }
  }
}

// The last, short block of a row: zeros behind its entries.
inline const std::uint32_t* padded(const std::uint32_t* numbers, std::size_t entries,
                                   std::uint32_t* room) {
  if (entries == static_cast<std::size_t>(kBlockEntries)) return numbers;
  std::fill(std::copy_n(numbers, entries, room), room + kBlockEntries, 0);
  return room;
}

}  // namespace cellfeed::format::shard::record
