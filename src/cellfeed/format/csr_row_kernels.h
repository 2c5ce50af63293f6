// Kernels that copy the entries of one plain CSR row; the best instruction set of the machine is
// chosen at run time (Highway). What is read need not be aligned. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cellfeed::format {

// Copies n >= 1 column indices of index_bytes (4 or 8) each, of which the low 32 bits are kept.
// True when each is larger than the one before, taken as signed numbers.
bool copy_indices(const std::byte* from, std::size_t index_bytes, std::size_t n, std::int32_t* out);

// Converts n values. False, leaving garbage, where one may not be exact: a float64 that rounds, an
// integer beyond 2^24 in magnitude.
bool convert_f64_to_f32(const std::byte* from, std::size_t n, float* out);
bool convert_i32_to_f32(const std::byte* from, std::size_t n, float* out);
bool convert_i64_to_f32(const std::byte* from, std::size_t n, float* out);

}  // namespace cellfeed::format
