// Kernels that convert the entries of one plain CSR row; the best instruction set of the machine is
// chosen at run time (Highway). What is read need not be aligned. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cellfeed::format {

// Copies the low halves of n >= 1 column indices of 8 bytes. True when each is larger than the one
// before, taken as signed numbers.
bool narrow_indices(const std::byte* from, std::size_t n, std::int32_t* out);

// Converts n values. False, leaving garbage, where one may not be exact: a float64 that rounds, an
// integer beyond 2^24 in magnitude.
bool convert_f64_to_f32(const std::byte* from, std::size_t n, float* out);
bool convert_i32_to_f32(const std::byte* from, std::size_t n, float* out);
bool convert_i64_to_f32(const std::byte* from, std::size_t n, float* out);
// Rounds n values. False, leaving garbage, where one is infinite or beyond the largest float.
bool round_f64_to_f32(const std::byte* from, std::size_t n, float* out);

}  // namespace cellfeed::format
