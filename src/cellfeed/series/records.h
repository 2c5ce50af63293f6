// Records: rows as they were read, each a time and the values: float32 where that changes none of
// them, so that they take half the memory, else float64.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "cellfeed/base/huge_pages.h"
#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {

// Of a record as files keep it: the time and float64.
inline std::int64_t record_bytes(std::size_t n_values) {
  return static_cast<std::int64_t>(8 * (n_values + 1));
}

// Some records, one after another. Lifetime: of what holds them. Thread-safe.
struct RecordRows {
  const std::byte* data = nullptr;
  std::size_t n_bytes = 0;  // of a record
  bool is_narrow = false;

  RecordRows from(std::int64_t row) const {
    return {data + static_cast<std::size_t>(row) * n_bytes, n_bytes, is_narrow};
  }
  std::int64_t time(std::int64_t row) const {
    std::int64_t value;
    std::memcpy(&value, data + static_cast<std::size_t>(row) * n_bytes, sizeof value);
    return value;
  }
  double value(std::int64_t row, std::size_t column) const {
    const std::byte* values = data + static_cast<std::size_t>(row) * n_bytes + 8;
    return is_narrow ? static_cast<double>(reinterpret_cast<const float*>(values)[column])
                     : reinterpret_cast<const double*>(values)[column];
  }
  // Of the first n.
  NumberRows values(std::int64_t n) const {
    return {data + 8, static_cast<std::size_t>(n), n_bytes, is_narrow};
  }
  // The first n as numbers: the bits of the time, and the values.
  void copy(std::int64_t n, std::size_t n_values, double* out) const;
};
// Records that copy() made.
inline RecordRows wide_rows(const double* records, std::size_t n_values) {
  return {reinterpret_cast<const std::byte*>(records), 8 * (n_values + 1), false};
}

// Not thread-safe.
class Records {
 public:
  // None, and narrow.
  explicit Records(std::size_t n_values) : n_values_(n_values) {}

  std::size_t n_rows() const { return n_rows_; }
  bool is_narrow() const { return is_narrow_; }
  std::size_t row_bytes() const { return is_narrow_ ? narrow_bytes(n_values_) : wide_bytes(); }
  // Of the memory that they take.
  std::int64_t bytes() const { return static_cast<std::int64_t>(capacity_bytes_); }
  RecordRows rows() const { return {data_.get(), row_bytes(), is_narrow_}; }
  std::byte* row(std::size_t i) { return data_.get() + i * row_bytes(); }

  // Room for n more, not set to zero; where the first of them begins.
  std::byte* extend(std::size_t n);
  void reserve(std::size_t n_rows);
  void truncate(std::size_t n_rows) { n_rows_ = n_rows; }
  void widen();
  void clear();  // none, and narrow again
  // All of them, and keeps none; in memory of their size.
  Records take();

  static std::size_t narrow_bytes(std::size_t n_values) {
    return 8 + (4 * n_values + 7) / 8 * 8;  // times stay where an int64 may lie
  }

 private:
  std::size_t wide_bytes() const { return static_cast<std::size_t>(record_bytes(n_values_)); }
  Records copied() const;

  std::size_t n_values_;
  bool is_narrow_ = true;
  std::size_t n_rows_ = 0, capacity_bytes_ = 0;
  LargeBytes data_;
};

}  // namespace cellfeed::series
