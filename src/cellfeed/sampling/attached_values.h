// attach_values: weights or labels, one per row or one per index, in the order of the sample set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/sample_set.h"

namespace cellfeed::sampling {

// Values of the samples of SampleSet(n_rows, indices): value v belongs to sample v. A length that
// is both the number of rows and of indices is taken as one per index. `storage` holds the result
// where `values` cannot be used as is. Throws kInvalidArgument for another length. REQUIRES:
// indices were checked.
template <typename T>
std::span<const T> attach_values(std::int64_t n_rows, const Indices& indices,
                                 std::span<const T> values, std::string_view what,
                                 std::vector<T>& storage) {
  const auto n_values = static_cast<std::int64_t>(values.size());
  if (!indices) {
    if (n_values != n_rows) {
      throw_invalid("{} has {} entries, but the collection has {} rows", what, n_values, n_rows);
    }
    return values;
  }
  const auto n_indices = static_cast<std::int64_t>(indices->size());
  if (n_values == n_indices && std::is_sorted(indices->begin(), indices->end())) return values;
  storage.resize(indices->size());
  if (n_values == n_indices) {
    std::vector<std::size_t> by_row(indices->size());
    std::iota(by_row.begin(), by_row.end(), std::size_t{0});
    std::stable_sort(by_row.begin(), by_row.end(),
                     [&](std::size_t a, std::size_t b) { return (*indices)[a] < (*indices)[b]; });
    for (std::size_t v = 0; v < by_row.size(); ++v) storage[v] = values[by_row[v]];
  } else if (n_values == n_rows) {
    std::vector<std::int64_t> sorted = *indices;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t v = 0; v < sorted.size(); ++v) {
      storage[v] = values[static_cast<std::size_t>(sorted[v])];
    }
  } else {
    throw_invalid(
        "{} has {} entries; give one per row of the collection ({}) or one per index ({})", what,
        n_values, n_rows, n_indices);
  }
  return storage;
}

}  // namespace cellfeed::sampling
