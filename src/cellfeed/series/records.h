// Records: rows as they were read, each a time (its bits in a double) and the features. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace cellfeed::series {

inline std::int64_t record_bytes(std::size_t n_features) {
  return static_cast<std::int64_t>(8 * (n_features + 1));
}

// Numbers that are not set to zero before they are written.
class Records {
 public:
  double* data() { return data_.get(); }
  const double* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<const double> span() const { return {data_.get(), size_}; }
  // Room for n more; where it begins.
  double* extend(std::size_t n) {
    if (size_ + n > capacity_) reserve(std::max(size_ + n, 2 * capacity_));
    size_ += n;
    return data_.get() + size_ - n;
  }
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    auto larger = std::make_unique_for_overwrite<double[]>(n);
    std::copy_n(data_.get(), size_, larger.get());
    data_ = std::move(larger);
    capacity_ = n;
  }
  void truncate(std::size_t n) { size_ = n; }
  void clear() { size_ = 0; }

 private:
  std::unique_ptr<double[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Records at rest: the values as float32 where that changes none of them, so that they take half
// the memory. Immutable.
class KeptRecords {
 public:
  // records: n_rows times (1 + n_values) numbers.
  KeptRecords(std::span<const double> records, std::size_t n_values);

  std::size_t n_rows() const { return n_rows_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(n_rows_ * stride_); }

  // Some of them, one after another. Lifetime: of the KeptRecords.
  struct Rows {
    const std::byte* data = nullptr;
    std::size_t stride = 0;  // bytes of a record
    bool is_narrow = false;

    Rows from(std::int64_t row) const {
      return {data + static_cast<std::size_t>(row) * stride, stride, is_narrow};
    }
    std::int64_t time(std::int64_t row) const {
      std::int64_t value;
      std::memcpy(&value, data + static_cast<std::size_t>(row) * stride, sizeof value);
      return value;
    }
    // As they are, where they are doubles; else null.
    const double* wide() const {
      return is_narrow ? nullptr : reinterpret_cast<const double*>(data);
    }
    // The first n as doubles.
    void copy(std::int64_t n, std::size_t n_values, double* out) const;
  };
  Rows rows() const { return {data_.get(), stride_, is_narrow_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t n_rows_ = 0, stride_ = 0;
  bool is_narrow_ = false;
};

}  // namespace cellfeed::series
