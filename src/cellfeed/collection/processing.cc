// What was done to the values of a collection.
#include <algorithm>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/collection.h"

namespace cellfeed::collection {

// No lock is held while files are read, as other threads do that. Two threads that ask at once both
// read, and get the same.
std::shared_ptr<const std::vector<format::Processing>> Collection::processing_of_stores() const {
  {
    const std::lock_guard lock(records_->mutex);
    if (records_->of_stores) return records_->of_stores;
  }
  auto found = std::make_shared<std::vector<format::Processing>>(stores_.size());
  step_stores(n_stores(), [&](std::int64_t s) {
    found->at(static_cast<std::size_t>(s)) = store(s).processing();
  });
  const std::lock_guard lock(records_->mutex);
  records_->of_stores = std::move(found);
  return records_->of_stores;
}

std::shared_ptr<const Collection> Collection::with_mixed_processing() const {
  const std::shared_ptr<Collection> copy(new Collection(*this));
  copy->allows_mixed_processing_ = true;
  for (NamedMatrix& matrix : copy->matrices_) matrix.cells = matrix.cells->with_mixed_processing();
  return copy;
}

format::Processing Collection::processing() const {
  const auto all = processing_of_stores();
  const auto is_like_first = [&](const format::Processing& one) {
    return one.json == all->front().json;
  };
  if (std::ranges::all_of(*all, is_like_first)) return all->front();
  std::vector<bool> has_cells(stores_.size(), !selected_);
  for (std::int64_t row = 0; selected_ && row < n_rows(); ++row)
    has_cells[locate(row).store] = true;
  std::vector<format::Processing> records;
  std::size_t first = 0;
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    if (!has_cells[s]) continue;
    if (records.empty()) first = s;
    records.push_back(all->at(s));
    if (allows_mixed_processing_ || records.back().value_steps == records[0].value_steps) continue;
    throw_invalid(
        "the values of files were processed differently, and would be mixed: '{}' records {}, and "
        "'{}' {}: take them apart, or a matrix that is alike in all files ({}); "
        "cellfeed.open(..., mixed_processing=\"allow\") mixes them",
        stores_[first]->info().path, records[0].value_steps, stores_[s]->info().path,
        records.back().value_steps, argument("layer"));
  }
  return format::join_processing(records);
}

}  // namespace cellfeed::collection
