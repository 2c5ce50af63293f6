// The bytes of a record, shared by its encoder and its decoders (docs/format/record.md).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cellfeed::format::shard::record {

static_assert(std::endian::native == std::endian::little,
              "records are read as they lie: little-endian");

inline constexpr int kBlockEntries = 128;
inline constexpr std::size_t kHeaderBytes = 3;
inline constexpr std::size_t kWordBytes = 2;
inline constexpr int kMaxExceptions = 63;
inline constexpr int kPositionBits = 7;
inline constexpr int kMaxNumberBits = 31;

enum class ValueKind : std::uint8_t {
  kCounts = 0,
  kMultiplied = 1,
  kDivided = 2,
  kDictionary = 3,
  kRaw = 4,
};
inline constexpr std::uint8_t kKindMask = 0x0f;
inline constexpr std::uint8_t kZeroBased = 0x10;  // codes are the counts themselves, not counts - 1

template <typename T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

inline std::size_t packed_bytes(int numbers, int bits) {
  return (static_cast<std::size_t>(numbers) * static_cast<std::size_t>(bits) + 7) / 8;
}

// How one block of one stream is packed: every number's low base_bits, then the exceptions.
struct StreamWidths {
  int base_bits = 0;
  int high_bits = 0;
  int exceptions = 0;

  static StreamWidths from_word(std::uint16_t word) {
    return {word & 31, (word >> 5) & 31, word >> 10};
  }
  std::uint16_t word() const {
    return static_cast<std::uint16_t>(base_bits | high_bits << 5 | exceptions << 10);
  }
  std::size_t base_bytes(int entries) const { return packed_bytes(entries, base_bits); }
  std::size_t exception_bytes() const {
    return packed_bytes(exceptions, kPositionBits + high_bits);
  }
  std::size_t bytes(int entries) const { return base_bytes(entries) + exception_bytes(); }
  // No number of the block has more bits than this.
  int max_bits() const { return exceptions == 0 ? base_bits : base_bits + high_bits + 1; }
  bool is_valid(int entries) const {
    return base_bits + high_bits <= kMaxNumberBits && exceptions <= entries;
  }
};

// The number of `bits` (<= 57) that starts `bit` bits behind `from`; reads 8 bytes.
inline std::uint64_t load_bits(const std::uint8_t* from, std::size_t bit, int bits) {
  return (load<std::uint64_t>(from + (bit >> 3)) >> (bit & 7)) & ((std::uint64_t{1} << bits) - 1);
}

// Puts the high parts of a block's exceptions over its base numbers (numbers holds kBlockEntries).
// False when positions do not rise or leave the block.
inline bool patch_exceptions(const std::uint8_t* packed, StreamWidths widths, int entries,
                             std::uint32_t* numbers) {
  const int bits = kPositionBits + widths.high_bits;
  bool valid = true;
  std::uint32_t least = 0;
  for (int i = 0; i < widths.exceptions; ++i) {
    const std::uint64_t field = load_bits(packed, static_cast<std::size_t>(i) * bits, bits);
    const auto position = static_cast<std::uint32_t>(field & (kBlockEntries - 1));
    valid &= position >= least;
    least = position + 1;
    numbers[position] |=
        static_cast<std::uint32_t>(((field >> kPositionBits) + 1) << widths.base_bits);
  }
  return valid && least <= static_cast<std::uint32_t>(entries);
}

}  // namespace cellfeed::format::shard::record
