// Chooses how a row's values are stored: always lossless, bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/shard/record/record_layout.h"

namespace cellfeed::format::shard::record {

struct ValueCoding {
  ValueKind kind = ValueKind::kRaw;
  bool zero_based = false;
  std::vector<std::uint8_t> prefix;  // factor or dictionary, as they stand behind the header
  std::vector<std::uint32_t> codes;  // one a value, unless kRaw
};

// A slot of 2^slot_bits for a value's bits, spread whatever bits the values of a row have in common
// (doubles that were float32 end with 29 zeros). slot_bits: 1 to 64.
inline std::size_t slot_of_bits(std::uint64_t bits, int slot_bits) {
  return static_cast<std::size_t>((bits ^ bits >> 32) * 0x9e3779b97f4a7c15u >> (64 - slot_bits));
}

// values: nnz elements of dtype. Reuses coding's memory.
void choose_value_coding(const void* values, std::size_t nnz, DType dtype, ValueCoding& coding);

}  // namespace cellfeed::format::shard::record
