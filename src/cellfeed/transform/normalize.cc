#include "cellfeed/transform/normalize.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/transform/simd/value_kernels.h"

namespace cellfeed::transform {
namespace {

template <typename Fn>
auto with_float_values(const Row& row, const Fn& fn) {
  const auto n = static_cast<std::size_t>(row.size);
  if (row.dtype == DType::kF32) return fn(std::span<float>(static_cast<float*>(row.values), n));
  return fn(std::span<double>(static_cast<double*>(row.values), n));
}

double sum_of(const Row& row) {
  return with_float_values(row, [](auto values) {
    const std::span<const std::remove_cvref_t<decltype(values[0])>> read = values;
    return sum_values(read);
  });
}

double library_size_of(const Row& row, double total) {
  return with_float_values(row, [&](auto values) {
    if (total == 0 && std::ranges::any_of(values, [](auto value) { return value != 0; }))
      throw_invalid(
          "NormalizeTotal needs counts, but the values of a cell cancel out: cell {}; remove "
          "negative values, or leave NormalizeTotal out for data that is normalised already",
          row.cell);
    return total;
  });
}

void take_log1p(const Row& row, double factor, double unit) {
  const bool have_logarithms = with_float_values(row, [&](auto values) {
    using T = std::remove_cvref_t<decltype(values[0])>;
    return log1p_values(values, static_cast<T>(factor), static_cast<T>(unit));
  });
  if (!have_logarithms)
    throw_invalid(
        "Log1p needs counts, but a cell has a value of -1 or less, which has no logarithm: cell "
        "{}; remove negative values, or leave Log1p out for data that is scaled",
        row.cell);
}

}  // namespace

double library_size(const Row& row) { return library_size_of(row, sum_of(row)); }

double library_size(const Row& row, double total) {
  // Of the row's own values, rounded to their dtype.
  constexpr double kRounding = 1e-5;
  if (total != 0 && sum_of(row) > total * (1 + kRounding))
    throw_invalid(
        "the total that is kept of a cell, {}, is less than the sum of its values: cell {}; some "
        "genes left out have negative values, or an exported file was changed (then remove its "
        "obs column '_library_size')",
        total, row.cell);
  return library_size_of(row, total);
}

NormalizeTotal::NormalizeTotal(double target_sum, bool is_forced)
    : target_sum_(target_sum), is_forced_(is_forced) {
  // Beyond, the values of a cell would be infinite, or zero, as floats.
  if (!(target_sum >= 1e-30 && target_sum <= 1e30))
    throw_invalid("NormalizeTotal: target_sum must be in [1e-30, 1e30]: {}", target_sum);
}

double NormalizeTotal::factor(const Row& row) const {
  if (row.library_size == 0) return 1;
  if (!(std::isfinite(row.library_size) && row.library_size > 0))
    throw_invalid(
        "NormalizeTotal needs counts, but the values of a cell sum to {}: cell {}; remove NaN, "
        "infinite or negative values, or leave NormalizeTotal out for data that is normalised "
        "already",
        row.library_size, row.cell);
  if (!is_forced_ && row.library_size != std::floor(row.library_size))
    throw_invalid(
        "NormalizeTotal expects counts, and the values of a cell sum to the fraction {}: cell {}; "
        "open the matrix that has counts ({}, or the name of a layer), leave NormalizeTotal out "
        "for data that is normalised already, or force it where fractions are counts ({})",
        row.library_size, row.cell, argument("layer", "raw/X"), argument("force", "true"));
  return target_sum_ / row.library_size;
}

void NormalizeTotal::apply(Row& row) const {
  if (row.library_size == 0) return;
  const double by = factor(row);
  with_float_values(row, [by](auto values) {
    using T = std::remove_cvref_t<decltype(values[0])>;
    scale_values(values, static_cast<T>(by));
  });
}

Log1p::Log1p(double base, bool is_forced) : unit_(1.0), is_forced_(is_forced) {
  if (base == 0) return;
  if (!(std::isfinite(base) && base > 0 && base != 1))
    throw_invalid("Log1p: base must be positive and not 1: {}", base);
  unit_ = 1.0 / std::log(base);
}

void Log1p::apply(Row& row) const { take_log1p(row, 1, unit_); }

void NormalizedLog1p::apply(Row& row) const { take_log1p(row, first_.factor(row), second_.unit()); }

}  // namespace cellfeed::transform
