#include "cellfeed/loader/rows_by_store.h"

#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::loader {

LocatedBatch locate_batch(const collection::Collection& cells, sampling::BatchPlan plan) {
  LocatedBatch batch{std::move(plan), {}};
  batch.places.reserve(batch.plan.rows.size());
  for (const std::int64_t row : batch.plan.rows) {
    if (row < 0 || row >= cells.n_rows())
      throw Error(
          ErrorKind::kInternal,
          fmt::format("the plan names a row that is not there: row {} of {}", row, cells.n_rows()));
    batch.places.push_back(cells.locate(row));
  }
  return batch;
}

std::vector<LocatedBatch> locate_batches(const collection::Collection& cells,
                                         std::vector<sampling::BatchPlan> plans) {
  std::vector<LocatedBatch> batches;
  batches.reserve(plans.size());
  for (auto& plan : plans) batches.push_back(locate_batch(cells, std::move(plan)));
  return batches;
}

// A counting sort by store.
RowsByStore::RowsByStore(const collection::Collection& cells,
                         std::span<const LocatedBatch> batches) {
  struct Store {
    std::int64_t next = 0;  // its rows; then the slot of its next row
    std::int32_t part = -1;
    std::int32_t last_batch = -1;
    std::size_t piece = 0;  // of that batch
  };
  std::vector<Store> stores(static_cast<std::size_t>(cells.n_stores()));
  for (const LocatedBatch& batch : batches)
    for (const collection::RowPlace& place : batch.places) ++stores[place.store].next;
  std::int64_t total = 0;
  for (std::size_t s = 0; s < stores.size(); ++s) {
    const std::int64_t n = std::exchange(stores[s].next, total);
    if (n == 0) continue;
    stores[s].part = static_cast<std::int32_t>(parts.size());
    parts.push_back({static_cast<std::int32_t>(s), total, total + n});
    total += n;
  }
  rows.resize(static_cast<std::size_t>(total));
  positions.resize(static_cast<std::size_t>(total));
  for (std::size_t b = 0; b < batches.size(); ++b) {
    first_piece.push_back(pieces.size());
    const auto number = static_cast<std::int32_t>(b);
    for (std::size_t i = 0; i < batches[b].places.size(); ++i) {
      const collection::RowPlace& place = batches[b].places[i];
      Store& store = stores[place.store];
      const std::int64_t slot = store.next++;
      rows[slot] = place.row;
      positions[slot] = static_cast<std::int64_t>(i);
      if (std::exchange(store.last_batch, number) != number) {
        store.piece = pieces.size();
        pieces.push_back({store.part, slot, slot});
      }
      pieces[store.piece].end = slot + 1;
    }
  }
  first_piece.push_back(pieces.size());
}

collection::ReadPlan plan_reads(const collection::Collection& cells, const RowsByStore& rows) {
  collection::ReadPlan all;
  for (const RowsByStore::Part& part : rows.parts) {
    const collection::ReadPlan plan = cells.store(part.store).plan(rows.rows_of(part));
    all.bytes_held += plan.bytes_held;
    all.bytes_inflated += plan.bytes_inflated;
  }
  return all;
}

}  // namespace cellfeed::loader
