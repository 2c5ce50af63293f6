// Loops over records and rows of numbers, compiled for each instruction set: every number is made
// by the same operations in the same order, so that all sets give the same bits. Thread-safe: pure.
#pragma once

#include <cstddef>

namespace cellfeed::series {

// Rows of numbers, `stride` numbers apart.
struct NumberRows {
  const double* data = nullptr;
  std::size_t n = 0;
  std::size_t stride = 0;
};

// One number for each column.
struct ColumnSums {
  double* count = nullptr;  // of values that are not missing, as all of these
  double* sum = nullptr;
  double* least = nullptr;  // infinity where there are none
  double* most = nullptr;   // minus infinity where there are none
};
void sum_columns(const NumberRows& rows, std::size_t n_cols, const ColumnSums& out);
// Of the distances from `means`, which are those of the columns.
void sum_squares(const NumberRows& rows, std::size_t n_cols, const double* means, double* out);

// Whether a value is missing (NaN).
bool has_missing(const NumberRows& rows, std::size_t n_cols);

// out: n rows of (value - center) / scale as T, one after another; false where one is beyond T.
bool scale_rows(const NumberRows& rows, std::size_t n_cols, const double* center,
                const double* scale, float* out);
bool scale_rows(const NumberRows& rows, std::size_t n_cols, const double* center,
                const double* scale, double* out);

// Values as float32, `n_bytes` from row to row; false, and half done, where that would change one.
// By their bits, so that a missing value and -0 stay what they are too.
bool narrow_rows(const NumberRows& rows, std::size_t n_cols, std::byte* out, std::size_t n_bytes);
// And back: rows of `out` are `stride` numbers apart.
void widen_rows(const std::byte* from, std::size_t n_bytes, std::size_t n, std::size_t n_cols,
                double* out, std::size_t stride);

}  // namespace cellfeed::series
