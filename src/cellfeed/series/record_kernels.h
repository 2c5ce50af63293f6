// Loops over records and rows of numbers, compiled for each instruction set: every number is made
// by the same operations in the same order, so that all sets give the same bits. Thread-safe: pure.
#pragma once

#include <cstddef>
#include <span>

namespace cellfeed::series {

// Rows of numbers, `n_bytes` from row to row: float32 where they are narrow, else float64. The same
// numbers give the same results either way.
struct NumberRows {
  const std::byte* data = nullptr;
  std::size_t n = 0;
  std::size_t n_bytes = 0;
  bool is_narrow = false;
};
// Of doubles, `stride` numbers apart.
inline NumberRows number_rows(const double* data, std::size_t n, std::size_t stride) {
  return {reinterpret_cast<const std::byte*>(data), n, stride * sizeof(double), false};
}

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
// By their bits, so that a missing value and -0 stay what they are too. REQUIRES: rows are wide.
bool narrow_rows(const NumberRows& rows, std::size_t n_cols, std::byte* out, std::size_t n_bytes);
// And back: rows of `out` are `stride` numbers apart. REQUIRES: rows are narrow.
void widen_rows(const NumberRows& rows, std::size_t n_cols, double* out, std::size_t stride);

// Columns of n numbers as rows of float32, `n_bytes` apart; false, and half done, where a number is
// infinite or, as of narrow_rows, no float32.
bool interleave_narrow(std::span<const float* const> columns, std::size_t n, std::byte* out,
                       std::size_t n_bytes);
bool interleave_narrow(std::span<const double* const> columns, std::size_t n, std::byte* out,
                       std::size_t n_bytes);

}  // namespace cellfeed::series
