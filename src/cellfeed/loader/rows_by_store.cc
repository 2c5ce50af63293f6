#include "cellfeed/loader/rows_by_store.h"

#include <algorithm>
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

RowsOfMatrices rows_of_matrices(const collection::Collection& cells,
                                std::span<const LocatedBatch> batches) {
  RowsOfMatrices rows{std::make_shared<const RowsByStore>(cells, batches)};
  for (std::size_t m = 1; m < cells.n_matrices(); ++m) {
    const collection::Collection& matrix = cells.matrix(m);
    if (std::ranges::equal(matrix.offsets(), cells.offsets())) {
      rows.push_back(rows[0]);
      continue;
    }
    std::vector<LocatedBatch> own;
    own.reserve(batches.size());
    for (const LocatedBatch& batch : batches) own.push_back(locate_batch(matrix, batch.plan));
    rows.push_back(std::make_shared<const RowsByStore>(matrix, own));
  }
  return rows;
}

PlannedRows plan_rows(const collection::Collection& cells, std::span<const LocatedBatch> batches) {
  PlannedRows planned{rows_of_matrices(cells, batches), {}};
  const RowsOfMatrices& rows = planned.rows;
  Work& work = planned.work;
  work.reads.read_ahead_bytes = 0;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const std::vector<RowsByStore::Part>& parts = rows[m]->parts;
    const collection::Collection& matrix = cells.matrix(m);
    std::vector<collection::ReadPlan> plans(parts.size());
    matrix.step_stores(std::ssize(parts), [&](std::int64_t p) {
      const RowsByStore::Part& part = parts[static_cast<std::size_t>(p)];
      plans[static_cast<std::size_t>(p)] = matrix.store(part.store).plan(rows[m]->rows_of(part));
    });
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const RowsByStore::Part& part = parts[p];
      const format::RowStore& store = matrix.store(part.store);
      const collection::ReadPlan& plan = plans[p];
      const std::int64_t n_rows = part.end - part.begin;
      work.reads.bytes_held += plan.bytes_held;
      work.reads.bytes_inflated += plan.bytes_inflated;
      work.reads.read_ahead_bytes = std::max(work.reads.read_ahead_bytes, plan.read_ahead_bytes);
      work.rows += n_rows;
      if (plan.bytes_inflated > 0) {
        work.inflated_rows += n_rows;
        work.bytes += static_cast<double>(plan.bytes_inflated);
      } else {
        work.bytes += static_cast<double>(n_rows) *
                      static_cast<double>(store.info().bytes_on_disk) /
                      static_cast<double>(store.info().n_rows);
      }
    }
  }
  return planned;
}

}  // namespace cellfeed::loader
