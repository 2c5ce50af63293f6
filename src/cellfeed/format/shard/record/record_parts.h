// RecordParts: where the parts of a record lie, all proven to lie inside its bytes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <utility>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/record/record_layout.h"

namespace cellfeed::format::shard::record {

// Lifetime: points into the bytes it was parsed from.
struct RecordParts {
  ValueKind kind = ValueKind::kCounts;
  std::int32_t offset = 0;                // count = code + offset
  const std::uint8_t* factor = nullptr;   // kMultiplied, kDivided: one value of the stored type
  const std::uint8_t* entries = nullptr;  // kDictionary: values of the stored type
  std::uint32_t n_entries = 0;
  const std::uint8_t* words = nullptr;  // widths of every block
  const std::uint8_t* blocks = nullptr;
  const std::uint8_t* blocks_end = nullptr;
  const std::uint8_t* raw = nullptr;  // kRaw: nnz values of the stored type
};

// Throws kCorruptData when bytes cannot be a record of nnz entries.
RecordParts parse_record(std::span<const std::uint8_t> bytes, std::int64_t nnz, DType stored);

template <typename... Args>
[[noreturn]] void throw_corrupt(fmt::format_string<Args...> text, Args&&... args) {
  throw_error(ErrorKind::kCorruptData, {},
              "packed record {}: the file is damaged, restore it or convert again",
              fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace cellfeed::format::shard::record
