// Kernels over the values that a cell's tokens are made of; the best instruction set of the machine
// is chosen at run time (Highway). Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace cellfeed::transform {

// What a column is to a tokenizer.
struct TokenColumn {
  std::int32_t id = 0;
  float divisor = 1;
};

// Whether all are finite and larger than 0.
bool are_positive(std::span<const float> values);
// Whether all are finite and not smaller than 0; -0 is 0.
bool are_expression(std::span<const float> values);
// quotients[i] = values[i] / columns[i].divisor and ids[i] = columns[i].id; whether the quotients
// are_expression. quotients may be the values. REQUIRES: all of one size.
bool divide_values(std::span<const float> values, std::span<const TokenColumn> columns,
                   std::span<float> quotients, std::span<std::int32_t> ids);

// values[i] = value; compilers fill by the vectors that every machine has, which are short.
void fill_values(std::span<std::int64_t> values, std::int64_t value);

}  // namespace cellfeed::transform
