// Checks and sorts the rows a strategy may draw.
#include "cellfeed/sampling/sample_set.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/permutation.h"

namespace cellfeed::sampling {

void check_n_rows(std::int64_t n_rows) {
  if (n_rows <= 0) throw_invalid("nothing to sample: the collection has {} rows", n_rows);
  if (n_rows > Permutation::kMaxSize) {
    throw_invalid("the collection has {} rows; at most 2^62 can be sampled", n_rows);
  }
}

void check_indices(std::int64_t n_rows, std::span<const std::int64_t> indices) {
  if (indices.empty()) {
    throw_invalid("nothing to sample: indices is empty; leave it out to sample all rows");
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= n_rows) {
      throw_error(ErrorKind::kOutOfRange, {},
                  "indices holds a row outside the collection: indices[{}] is {}, rows are 0 to {}",
                  i, indices[i], n_rows - 1);
    }
  }
}

SampleSet::SampleSet(std::int64_t n_rows, Indices indices) : n_rows_(n_rows), size_(n_rows) {
  check_n_rows(n_rows);
  if (!indices) return;
  check_indices(n_rows, *indices);
  rows_ = *std::move(indices);
  if (!std::is_sorted(rows_.begin(), rows_.end())) std::sort(rows_.begin(), rows_.end());
  size_ = static_cast<std::int64_t>(rows_.size());
  const auto gap =
      std::adjacent_find(rows_.begin(), rows_.end(), [](auto a, auto b) { return b != a + 1; });
  if (gap == rows_.end()) {
    first_ = rows_.front();
    rows_ = {};
  }
}

void SampleSet::add_to(Fingerprint& fingerprint) const {
  fingerprint.add_signed(n_rows_).add_signed(size_).add_signed(first_);
  fingerprint.add_all(rows());
}

}  // namespace cellfeed::sampling
