// Permutation: a keyed bijection on [0, n), in O(1) memory.
//
// Up to kExplicitSize elements: Fisher-Yates, so that every permutation is equally likely. Above: a
// generalised Feistel network of 8 rounds with cycle walking, for any n up to 2^62. The exact
// algorithms are in docs/sampling.md.
//
// Thread-safe: immutable once made.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cellfeed/sampling/random.h"

namespace cellfeed::sampling {

class Permutation {
 public:
  static constexpr std::int64_t kExplicitSize = 65536;
  static constexpr std::int64_t kExplicitMembers = 4096;  // of one group, for Purpose::kGroupMember
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << 62;

  // REQUIRES: 0 < n <= kMaxSize; explicit_size <= kExplicitSize.
  Permutation(const RandomStream& stream, std::uint64_t substream, std::int64_t n,
              std::int64_t explicit_size = kExplicitSize);

  // REQUIRES: i in [0, n).
  std::int64_t operator()(std::int64_t i) const {
    if (!table_.empty()) return table_[static_cast<std::size_t>(i)];
    auto x = static_cast<std::uint64_t>(i);
    do {
      x = encrypt(x);
    } while (x >= size_);
    return static_cast<std::int64_t>(x);
  }

  // The i that (*this)(i) == value. Up to kExplicitSize elements it searches: make a table instead.
  // REQUIRES: value in [0, n).
  std::int64_t preimage(std::int64_t value) const {
    if (!table_.empty())
      return std::find(table_.begin(), table_.end(), static_cast<std::uint16_t>(value)) -
             table_.begin();
    auto x = static_cast<std::uint64_t>(value);
    do {
      x = decrypt(x);
    } while (x >= size_);
    return static_cast<std::int64_t>(x);
  }

 private:
  static constexpr int kRounds = 8;

  void fill_table(const RandomStream& stream, std::uint64_t substream);
  // Keyed hash of a half; its high bits are the good ones.
  static std::uint64_t round_bits(std::uint64_t key, std::uint64_t half) {
    const std::uint64_t z = key + half * 0x9E3779B97F4A7C15u;
    return (z ^ (z >> 32)) * 0xBF58476D1CE4E5B9u;
  }
  std::uint64_t encrypt(std::uint64_t x) const {
    std::uint64_t left = x & left_mask_;
    std::uint64_t right = x >> left_bits_;
    for (std::size_t r = 0; r < kRounds; r += 2) {
      left = (left + (round_bits(keys_[r], right) >> (64 - left_bits_))) & left_mask_;
      right += scale_bits(round_bits(keys_[r + 1], left), right_size_);
      if (right >= right_size_) right -= right_size_;
    }
    return right << left_bits_ | left;
  }
  std::uint64_t decrypt(std::uint64_t x) const {
    std::uint64_t left = x & left_mask_;
    std::uint64_t right = x >> left_bits_;
    for (std::size_t r = kRounds; r > 0; r -= 2) {
      const std::uint64_t shift = scale_bits(round_bits(keys_[r - 1], left), right_size_);
      right = right >= shift ? right - shift : right + right_size_ - shift;
      left = (left - (round_bits(keys_[r - 2], right) >> (64 - left_bits_))) & left_mask_;
    }
    return right << left_bits_ | left;
  }

  std::uint64_t size_;
  std::vector<std::uint16_t> table_;  // empty for a Feistel network
  int left_bits_ = 0;
  std::uint64_t left_mask_ = 0;
  std::uint64_t right_size_ = 0;
  std::array<std::uint64_t, kRounds> keys_{};
};

// The permutation of [0, n) for (seed, epoch, purpose, substream). Each thread keeps the few it
// used last.
std::shared_ptr<const Permutation> cached_permutation(std::uint64_t seed, std::uint64_t epoch,
                                                      Purpose purpose, std::uint64_t substream,
                                                      std::int64_t n);

}  // namespace cellfeed::sampling
