// Records: rows as they were read, each a time (its bits in a double) and the features. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  // Gives back what is not used, where it is much.
  void trim() {
    if (size_ > capacity_ / 4 * 3) return;
    Records smaller;
    std::copy_n(data_.get(), size_, smaller.extend(size_));
    *this = std::move(smaller);
  }

 private:
  std::unique_ptr<double[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace cellfeed::series
