#include "cellfeed/series/records.h"

#include <algorithm>
#include <utility>

namespace cellfeed::series {

void RecordRows::copy(std::int64_t n, std::size_t n_values, double* out) const {
  const auto n_rows = static_cast<std::size_t>(n);
  if (!is_narrow) {
    std::memcpy(out, data, n_rows * n_bytes);
    return;
  }
  widen_rows(values(n), n_values, out + 1, n_values + 1);
  for (std::size_t row = 0; row < n_rows; ++row)
    std::memcpy(out + row * (n_values + 1), data + row * n_bytes, 8);
}

std::byte* Records::extend(std::size_t n) {
  const std::size_t wanted = (n_rows_ + n) * row_bytes();
  if (wanted > capacity_bytes_) reserve(std::max(n_rows_ + n, 2 * n_rows_));
  n_rows_ += n;
  return row(n_rows_ - n);
}

void Records::reserve(std::size_t n_rows) {
  const std::size_t wanted = n_rows * row_bytes();
  if (wanted <= capacity_bytes_) return;
  LargeBytes larger = make_large_bytes(wanted);
  if (n_rows_ > 0) std::memcpy(larger.get(), data_.get(), n_rows_ * row_bytes());
  data_ = std::move(larger);
  capacity_bytes_ = wanted;
}

void Records::widen() {
  if (!is_narrow_) return;
  if (n_rows_ == 0) {  // keeps its memory
    is_narrow_ = false;
    return;
  }
  Records narrow = std::exchange(*this, Records(n_values_));
  is_narrow_ = false;
  auto* out = reinterpret_cast<double*>(extend(narrow.n_rows_));
  narrow.rows().copy(static_cast<std::int64_t>(narrow.n_rows_), n_values_, out);
}

void Records::clear() {
  n_rows_ = 0;
  is_narrow_ = true;
}

Records Records::copied() const {
  Records copy(n_values_);
  copy.is_narrow_ = is_narrow_;
  copy.reserve(n_rows_);
  if (n_rows_ > 0) std::memcpy(copy.extend(n_rows_), data_.get(), n_rows_ * row_bytes());
  return copy;
}

Records Records::take() {
  if (4 * n_rows_ * row_bytes() >= 3 * capacity_bytes_)
    return std::exchange(*this, Records(n_values_));
  Records taken = copied();
  clear();
  return taken;
}

}  // namespace cellfeed::series
