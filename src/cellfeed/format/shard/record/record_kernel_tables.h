// Tables by bit width with which SIMD code takes packed numbers apart: which bytes go to which
// lane, and how far each lane is shifted.
#pragma once

#include <array>
#include <cstdint>

namespace cellfeed::format::shard::record {

inline constexpr int kTableLanes = 16;    // 16 numbers of b bits take 2 b bytes
inline constexpr int kMaxTableBits = 25;  // a number of 25 bits and a shift of 7 still fill 32 bits
inline constexpr int kTableWidths = kMaxTableBits + 1;

struct UnpackTables {
  // Shift of lane i: 32-bit lane i starts at byte (i b) / 8, its number at bit (i b) % 8.
  alignas(64) std::uint32_t shifts[kTableWidths][kTableLanes];
  // Byte of 64 that goes to byte j of lane i (permutation across the whole vector).
  alignas(64) std::uint8_t bytes[kTableWidths][4 * kTableLanes];
  // In two steps: the 32-bit words that hold 4 numbers go to one 128-bit block, then bytes move
  // inside blocks.
  alignas(64) std::uint32_t words[kTableWidths][kTableLanes];
  alignas(64) std::uint8_t block_bytes[kTableWidths][4 * kTableLanes];
  // 128-bit vectors alone: the 4 numbers at a whole byte, and the 4 behind them, which start at
  // byte b / 2.
  alignas(16) std::uint8_t quad_bytes[kTableWidths][2][16];
};

constexpr UnpackTables make_unpack_tables() {
  UnpackTables t{};
  for (int b = 0; b < kTableWidths; ++b) {
    for (int lane = 0; lane < kTableLanes; ++lane) {
      const int block = lane / 4;
      const int byte = lane * b / 8;
      const int block_word = 4 * block * b / 32;
      t.shifts[b][lane] = static_cast<std::uint32_t>(lane * b % 8);
      t.words[b][lane] = static_cast<std::uint32_t>((block_word + lane % 4) % kTableLanes);
      for (int j = 0; j < 4; ++j) {
        t.bytes[b][4 * lane + j] = static_cast<std::uint8_t>(byte + j);
        t.block_bytes[b][4 * lane + j] = static_cast<std::uint8_t>(byte - 4 * block_word + j);
        if (block < 2)
          t.quad_bytes[b][block][4 * (lane % 4) + j] =
              static_cast<std::uint8_t>(byte - block * (b / 2) + j);
      }
    }
  }
  return t;
}

inline constexpr UnpackTables kUnpackTables = make_unpack_tables();

}  // namespace cellfeed::format::shard::record
