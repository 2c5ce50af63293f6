#include "cellfeed/collection/row_selection.h"

#include <algorithm>
#include <bit>

#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"

namespace cellfeed::collection {

RowSelection::RowSelection(std::span<const std::int64_t> rows, std::int64_t n_rows) {
  if (rows.empty()) throw_invalid("a selection needs at least one row");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= n_rows)
      throw Error(ErrorKind::kOutOfRange,
                  fmt::format("row {} is outside the collection of {} cells", rows[i], n_rows));
    if (i > 0 && rows[i] == rows[i - 1] + 1) continue;
    firsts_.push_back(rows[i]);
    begins_.push_back(static_cast<std::int64_t>(i));
  }
  begins_.push_back(std::ssize(rows));
  find_hints();
}

// As many hints as runs, so that few runs lie between two of them.
void RowSelection::find_hints() {
  const auto rows_a_run = static_cast<std::uint64_t>(std::max<std::int64_t>(size() / n_runs(), 1));
  hint_bits_ = static_cast<int>(std::bit_width(rows_a_run)) - 1;
  std::int64_t run = 0;
  for (std::int64_t place = 0; place < size(); place += std::int64_t{1} << hint_bits_) {
    while (begins_[run + 1] <= place) ++run;
    hints_.push_back(run);
  }
  hints_.push_back(n_runs() - 1);
}

std::int64_t RowSelection::row(std::int64_t i) const {
  const std::int64_t hint = i >> hint_bits_;
  const auto first = begins_.begin() + hints_[hint];
  const auto last = begins_.begin() + hints_[hint + 1] + 1;
  const std::int64_t run = std::upper_bound(first, last, i) - begins_.begin() - 1;
  return firsts_[run] + (i - begins_[run]);
}

std::uint64_t RowSelection::hash() const {
  auto hash = static_cast<std::uint64_t>(size());
  for (std::size_t run = 0; run < firsts_.size(); ++run) {
    hash = mix(hash, static_cast<std::uint64_t>(firsts_[run]));
    hash = mix(hash, static_cast<std::uint64_t>(begins_[run]));
  }
  return hash;
}

}  // namespace cellfeed::collection
