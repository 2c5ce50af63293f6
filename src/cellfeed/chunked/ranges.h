// Stretches of an array's elements: by number, and where they lie in memory. Thread-safe: values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cellfeed::chunked {

// Elements [begin, end) in row-major order.
struct EntryRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Consecutive stored elements, unaligned; a row that crosses chunks has several.
struct RowPiece {
  const std::byte* data = nullptr;
  std::int64_t length = 0;
};

}  // namespace cellfeed::chunked
