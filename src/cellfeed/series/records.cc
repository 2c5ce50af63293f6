#include "cellfeed/series/records.h"

#include <bit>

namespace cellfeed::series {
namespace {

// Values as float32, one record after another; false, and half done, where that would change one.
// By their bits, so that a missing value and -0 stay what they are too.
bool narrow(const double* from, std::size_t n_rows, std::size_t n_values, std::size_t stride,
            std::byte* to) {
  for (std::size_t row = 0; row < n_rows; ++row, from += n_values + 1, to += stride) {
    std::memcpy(to, from, 8);
    auto* const values = reinterpret_cast<float*>(to + 8);
    std::uint64_t lost = 0;
    for (std::size_t v = 0; v < n_values; ++v) {
      const double value = from[v + 1];
      const auto narrowed = static_cast<float>(value);
      values[v] = narrowed;
      lost |= std::bit_cast<std::uint64_t>(value) ^
              std::bit_cast<std::uint64_t>(static_cast<double>(narrowed));
    }
    if (lost != 0) return false;
  }
  return true;
}

}  // namespace

KeptRecords::KeptRecords(std::span<const double> records, std::size_t n_values)
    : n_rows_(records.size() / (n_values + 1)),
      // Times stay where an int64 may lie.
      stride_(8 + (4 * n_values + 7) / 8 * 8),
      is_narrow_(true) {
  data_ = std::make_unique_for_overwrite<std::byte[]>(n_rows_ * stride_);
  if (narrow(records.data(), n_rows_, n_values, stride_, data_.get())) return;
  is_narrow_ = false;
  stride_ = 8 * (n_values + 1);
  data_ = std::make_unique_for_overwrite<std::byte[]>(n_rows_ * stride_);
  std::memcpy(data_.get(), records.data(), records.size_bytes());
}

void KeptRecords::Rows::copy(std::int64_t n, std::size_t n_values, double* out) const {
  if (!is_narrow) {
    std::memcpy(out, data, static_cast<std::size_t>(n) * stride);
    return;
  }
  const std::byte* from = data;
  for (std::int64_t row = 0; row < n; ++row, from += stride, out += n_values + 1) {
    std::memcpy(out, from, 8);
    const auto* const values = reinterpret_cast<const float*>(from + 8);
    for (std::size_t v = 0; v < n_values; ++v) out[v + 1] = static_cast<double>(values[v]);
  }
}

}  // namespace cellfeed::series
