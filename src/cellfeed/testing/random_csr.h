// random_csr: CSR blocks of counts for tests, reproducible from a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "cellfeed/matrix/csr.h"

namespace cellfeed::testing {

struct RandomCsrOptions {
  std::int64_t n_rows = 100;
  std::int64_t n_cols = 300;
  double density = 0.1;          // of non-zeros in a row that is not empty
  double empty_rows = 0.1;       // share of rows without any entry
  double explicit_zeros = 0.02;  // share of entries that store 0
  std::int64_t max_value = 100;  // values are 1..max_value, small ones far more often
  std::uint64_t seed = 1;
  DType dtype = DType::kF32;
};

inline matrix::CsrBlock random_csr(const RandomCsrOptions& options = {}) {
  std::mt19937_64 random(options.seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> values;
  for (std::int64_t row = 0; row < options.n_rows; ++row) {
    const bool is_empty = uniform(random) < options.empty_rows;
    for (std::int64_t column = 0; !is_empty && column < options.n_cols; ++column) {
      if (uniform(random) >= options.density) continue;
      indices.push_back(static_cast<std::int32_t>(column));
      const double u = uniform(random);
      const auto value =
          static_cast<std::int64_t>(u * u * u * static_cast<double>(options.max_value)) + 1;
      values.push_back(
          uniform(random) < options.explicit_zeros ? 0 : std::min(value, options.max_value));
    }
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
  }
  matrix::CsrBlock block;
  block.n_rows = options.n_rows;
  block.n_cols = options.n_cols;
  block.indptr.reset(indptr.size());
  std::copy(indptr.begin(), indptr.end(), block.indptr.begin());
  block.indices.reset(indices.size());
  std::copy(indices.begin(), indices.end(), block.indices.begin());
  block.values = matrix::make_value_buffer(options.dtype, values.size());
  std::visit(
      [&](auto& buffer) {
        using T = std::remove_cvref_t<decltype(buffer[0])>;
        std::transform(values.begin(), values.end(), buffer.begin(),
                       [](std::int64_t value) { return static_cast<T>(value); });
      },
      block.values);
  return block;
}

}  // namespace cellfeed::testing
