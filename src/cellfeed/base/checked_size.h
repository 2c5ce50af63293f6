// CheckedSize: sums and products of sizes that come from disk, without overflow.
// Thread-safe: a value.
#pragma once

#include <cstdint>

namespace cellfeed {

// A size from 0 to 2^63 - 1, or none once a sum or product left that range.
class CheckedSize {
 public:
  constexpr CheckedSize(std::int64_t value) : value_(value), fits_(value >= 0) {}

  constexpr bool fits() const { return fits_; }
  // REQUIRES: fits().
  constexpr std::int64_t value() const { return value_; }
  constexpr bool operator==(std::int64_t other) const { return fits_ && value_ == other; }

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize sum(0);
    sum.fits_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.fits_ && b.fits_;
    return sum;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize product(0);
    product.fits_ =
        !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.fits_ && b.fits_;
    return product;
  }
  constexpr CheckedSize& operator+=(CheckedSize other) { return *this = *this + other; }

 private:
  std::int64_t value_;
  bool fits_;
};

}  // namespace cellfeed
