#include "cellfeed/series/records.h"

#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {

KeptRecords::KeptRecords(std::span<const double> records, std::size_t n_values)
    : n_rows_(records.size() / (n_values + 1)),
      // Times stay where an int64 may lie.
      stride_(8 + (4 * n_values + 7) / 8 * 8),
      is_narrow_(true) {
  const std::size_t width = n_values + 1;
  data_ = std::make_unique_for_overwrite<std::byte[]>(n_rows_ * stride_);
  if (narrow_rows({records.data() + 1, n_rows_, width}, n_values, data_.get() + 8, stride_)) {
    for (std::size_t row = 0; row < n_rows_; ++row)
      std::memcpy(data_.get() + row * stride_, records.data() + row * width, 8);
    return;
  }
  is_narrow_ = false;
  stride_ = 8 * width;
  data_ = std::make_unique_for_overwrite<std::byte[]>(n_rows_ * stride_);
  std::memcpy(data_.get(), records.data(), records.size_bytes());
}

void KeptRecords::Rows::copy(std::int64_t n, std::size_t n_values, double* out) const {
  const auto n_rows = static_cast<std::size_t>(n);
  if (!is_narrow) {
    std::memcpy(out, data, n_rows * stride);
    return;
  }
  widen_rows(data + 8, stride, n_rows, n_values, out + 1, n_values + 1);
  for (std::size_t row = 0; row < n_rows; ++row)
    std::memcpy(out + row * (n_values + 1), data + row * stride, 8);
}

}  // namespace cellfeed::series
