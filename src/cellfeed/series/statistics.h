// Statistics of columns that are seen in pieces: counts, means, variances, extremes. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {

struct ColumnStatistics {
  std::int64_t n = 0;  // values that are not missing
  double mean = 0;
  double m2 = 0;  // sum of squared distances from the mean
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  double variance() const { return n > 0 ? m2 / static_cast<double>(n) : 0; }
  // Chan, Golub, LeVeque 1983: the statistics of both samples together.
  void merge(const ColumnStatistics& other);
};

// Rows are gathered into blocks of a fixed number, each summed up in two passes, then merged: the
// result depends on the rows and their order alone.
class RowStatistics {
 public:
  explicit RowStatistics(std::size_t n_cols);
  void add(NumberRows rows);
  std::vector<ColumnStatistics> finish();

 private:
  void keep(const NumberRows& rows);
  void add_block(const NumberRows& block);
  std::vector<ColumnStatistics> columns_;
  std::unique_ptr<double[]> kept_;  // rows that are no whole block yet
  std::size_t n_kept_ = 0;
  std::vector<double> n_, sum_, min_, max_, m2_;  // scratch, a number a column
};

// Values at given quantiles of many columns, exactly, however many values there are: passes over
// all values find 13 bits each. Values are added in every pass, in any order, by any thread's copy.
class QuantileSearch {
 public:
  static constexpr int kPasses = 5;

  // n: values of each column that are not missing. quantiles: of each column, in [0, 1].
  QuantileSearch(std::span<const std::int64_t> n, std::span<const double> quantiles);
  void add(std::size_t column, double value);  // missing ones are passed over
  void merge(const QuantileSearch& other);     // of the same pass
  void end_pass();
  // numpy's: between the two nearest values, by a straight line. REQUIRES: kPasses passes.
  double quantile(std::size_t column, std::size_t quantile) const;

  static std::int64_t bytes_of(std::size_t n_cols, std::size_t n_quantiles);

 private:
  static constexpr int kBits = 13;
  // One value that is looked for: that of this rank, whose bits above `shift` are known.
  struct Target {
    std::int64_t rank = 0;
    std::uint64_t prefix = 0;
  };
  int shift() const;
  std::size_t n_quantiles_;
  std::vector<Target> targets_;       // column by column: below and above each quantile
  std::vector<double> fractions_;     // of each quantile of each column
  std::vector<std::int64_t> counts_;  // of each target, of each value of the next bits
  int pass_ = 0;
};

}  // namespace cellfeed::series
