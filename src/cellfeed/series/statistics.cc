#include "cellfeed/series/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace cellfeed::series {
namespace {

constexpr std::size_t kBlockRows = 512;

// Keys in the order of the numbers.
std::uint64_t key_of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return bits >> 63 != 0 ? ~bits : bits | std::uint64_t{1} << 63;
}
double number_of(std::uint64_t key) {
  return std::bit_cast<double>(key >> 63 != 0 ? key & ~(std::uint64_t{1} << 63) : ~key);
}

}  // namespace

void ColumnStatistics::merge(const ColumnStatistics& other) {
  if (other.n == 0) return;
  const auto n_a = static_cast<double>(n), n_b = static_cast<double>(other.n);
  const double delta = other.mean - mean;
  mean += delta * (n_b / (n_a + n_b));
  m2 += other.m2 + delta * delta * (n_a * n_b / (n_a + n_b));
  n += other.n;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

RowStatistics::RowStatistics(std::size_t n_cols)
    : columns_(n_cols), n_(n_cols), sum_(n_cols), min_(n_cols), max_(n_cols), m2_(n_cols) {}

void RowStatistics::add(NumberRows rows) {
  const std::size_t n_cols = columns_.size();
  while (rows.n > 0) {
    const std::size_t n = std::min(rows.n, kBlockRows - n_kept_);
    const NumberRows some{rows.data, n, rows.n_bytes, rows.is_narrow};
    if (n == kBlockRows)
      add_block(some);
    else
      keep(some);
    if (n_kept_ == kBlockRows)
      add_block(number_rows(kept_.get(), std::exchange(n_kept_, 0), n_cols));
    rows.data += n * rows.n_bytes;
    rows.n -= n;
  }
}

void RowStatistics::keep(const NumberRows& rows) {
  const std::size_t n_cols = columns_.size();
  if (!kept_) kept_ = std::make_unique_for_overwrite<double[]>(kBlockRows * n_cols);
  double* out = kept_.get() + n_kept_ * n_cols;
  n_kept_ += rows.n;
  if (rows.is_narrow) return widen_rows(rows, n_cols, out, n_cols);
  for (std::size_t i = 0; i < rows.n; ++i, out += n_cols)
    std::memcpy(out, rows.data + i * rows.n_bytes, n_cols * sizeof(double));
}

std::vector<ColumnStatistics> RowStatistics::finish() {
  if (n_kept_ > 0) add_block(number_rows(kept_.get(), std::exchange(n_kept_, 0), columns_.size()));
  return std::move(columns_);
}

void RowStatistics::add_block(const NumberRows& block) {
  const std::size_t n_cols = columns_.size();
  sum_columns(block, n_cols, {n_.data(), sum_.data(), min_.data(), max_.data()});
  for (std::size_t c = 0; c < n_cols; ++c) sum_[c] = n_[c] > 0 ? sum_[c] / n_[c] : 0;
  sum_squares(block, n_cols, sum_.data(), m2_.data());
  for (std::size_t c = 0; c < n_cols; ++c)
    columns_[c].merge({.n = static_cast<std::int64_t>(n_[c]),
                       .mean = sum_[c],
                       .m2 = m2_[c],
                       .min = min_[c],
                       .max = max_[c]});
}

QuantileSearch::QuantileSearch(std::span<const std::int64_t> n, std::span<const double> quantiles)
    : n_quantiles_(quantiles.size()) {
  for (const std::int64_t count : n)
    for (const double quantile : quantiles) {
      const double position = quantile * static_cast<double>(std::max<std::int64_t>(count - 1, 0));
      const double below = std::floor(position);
      fractions_.push_back(position - below);
      const auto rank = static_cast<std::int64_t>(below);
      targets_.push_back({rank, 0});
      targets_.push_back({std::min(rank + 1, std::max<std::int64_t>(count - 1, 0)), 0});
    }
  counts_.assign(targets_.size() << kBits, 0);
}

int QuantileSearch::shift() const { return std::max(0, 64 - kBits * (pass_ + 1)); }

void QuantileSearch::add(std::size_t column, double value) {
  if (std::isnan(value)) return;
  const std::uint64_t key = key_of(value);
  const int low = shift();
  const int high = pass_ == 0 ? 64 : 64 - kBits * pass_;
  const std::uint64_t prefix = high == 64 ? 0 : key >> high;
  const std::uint64_t digit = (key >> low) & ((std::uint64_t{1} << (high - low)) - 1);
  const std::size_t first = column * n_quantiles_ * 2;
  for (std::size_t t = first; t < first + n_quantiles_ * 2; ++t)
    if (targets_[t].prefix == prefix) ++counts_[(t << kBits) + digit];
}

void QuantileSearch::merge(const QuantileSearch& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

void QuantileSearch::end_pass() {
  const int high = pass_ == 0 ? 64 : 64 - kBits * pass_;
  const int n_bits = high - shift();
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    Target& target = targets_[t];
    std::uint64_t digit = 0;
    const std::uint64_t last = (std::uint64_t{1} << n_bits) - 1;
    for (; digit < last; ++digit) {
      const std::int64_t n = counts_[(t << kBits) + digit];
      if (target.rank < n) break;
      target.rank -= n;
    }
    target.prefix = target.prefix << n_bits | digit;
  }
  std::ranges::fill(counts_, 0);
  ++pass_;
}

double QuantileSearch::quantile(std::size_t column, std::size_t quantile) const {
  const std::size_t q = column * n_quantiles_ + quantile;
  const double below = number_of(targets_[2 * q].prefix);
  const double above = number_of(targets_[2 * q + 1].prefix);
  const double fraction = fractions_[q];
  return fraction == 0 ? below : below + (above - below) * fraction;
}

std::int64_t QuantileSearch::bytes_of(std::size_t n_cols, std::size_t n_quantiles) {
  return static_cast<std::int64_t>((n_cols * n_quantiles * 2) << kBits) * 8;
}

}  // namespace cellfeed::series
