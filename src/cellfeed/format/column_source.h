// ColumnSource: the values of a column of a file, whatever its format, as Arrow arrays: numbers,
// booleans, texts. Thread-safe. Lifetime: what it was got from outlives it.
#pragma once

#include <arrow/type_fwd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

namespace cellfeed::format {

// Chunks that were never written, and compressed ones, hold more than a file has bytes; this much
// of a column is read whatever the file's size, and beyond it so many times its size.
inline constexpr std::uint64_t kAlwaysReadBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMostExpansion = 2048;
inline std::uint64_t most_expanded_bytes(std::uint64_t stored_bytes) {
  return std::max(kAlwaysReadBytes, kMostExpansion * stored_bytes);
}

class ColumnSource {
 public:
  virtual ~ColumnSource() = default;
  virtual const std::string& name() const = 0;  // its path in the file
  // Of its only dimension, or of the first; 0 for what has none.
  virtual std::int64_t length() const = 0;
  // Whether values are integers, as far as the type says.
  virtual bool holds_integers() const = 0;
  // Values [begin, end). float16 widens to float32. Throws kUnsupported naming the column when its
  // type has no Arrow counterpart or it has not one dimension, and kCorruptData for texts that are
  // not UTF-8.
  virtual std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const = 0;
  // All values; where there is no dimension, the one.
  virtual std::shared_ptr<arrow::Array> read_all() const = 0;
};

}  // namespace cellfeed::format
