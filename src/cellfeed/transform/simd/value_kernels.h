// Kernels over the values of one row; the best instruction set of the machine is chosen at run time (Highway).
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace cellfeed::transform {

// The sum in double precision, whatever the type.
double sum_values(std::span<const float> values);
double sum_values(std::span<const double> values);
// values[i] *= factor
void scale_values(std::span<float> values, float factor);
void scale_values(std::span<double> values, double factor);
// values[i] = log(1 + values[i] * factor) * unit. Highway's Log1p: within 2 ulp of the exact logarithm.
void log1p_values(std::span<float> values, float factor, float unit);
void log1p_values(std::span<double> values, double factor, double unit);

}  // namespace cellfeed::transform
