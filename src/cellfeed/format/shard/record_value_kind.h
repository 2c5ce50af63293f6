// Chooses how a row's values are stored: always lossless, bit by bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/shard/record_layout.h"

namespace cellfeed::format::shard::record {

struct ValueCoding {
  ValueKind kind = ValueKind::kRaw;
  bool zero_based = false;
  std::vector<std::uint8_t> prefix;  // factor or dictionary, as they stand behind the header
  std::vector<std::uint32_t> codes;  // one a value, unless kRaw
};

// values: nnz elements of dtype. Reuses coding's memory.
void choose_value_coding(const void* values, std::size_t nnz, DType dtype, ValueCoding& coding);

}  // namespace cellfeed::format::shard::record
