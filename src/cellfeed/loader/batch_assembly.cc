#include "cellfeed/loader/batch_assembly.h"

#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/loader/label_entropy.h"

namespace cellfeed::loader {
namespace {

// The batches on their way take more than this: in the caches they would push out one another, and
// what is being read. Half the last cache of most machines; smaller ones gain from being in it
// (measured at 0.5, 1, 2, 4 and 8 MB a batch).
constexpr std::int64_t kCachedBytes = std::int64_t{16} << 20;

BatchSink::Rows rows_of(Window& window, std::size_t b, std::size_t m) {
  return {.window = window.matrices()[m], .batch = b, .matrix = m, .plan = window.batch(b).plan};
}

}  // namespace

std::int64_t plan_batch_bytes(const LoaderCore& core, Window& window, std::size_t b) {
  const auto n = static_cast<std::int64_t>(window.batch(b).plan.rows.size());
  const Recycler& recycler = *core.recycler;
  std::int64_t bytes = n * 9;  // rows and marks of padding
  for (const auto& column : core.obs)
    bytes += recycler.taken_bytes(n * static_cast<std::int64_t>(dtype_bytes(column->dtype())));
  for (std::size_t m = 0; m < window.matrices().size(); ++m)
    bytes += core.matrices[m].sink->plan_bytes(recycler, rows_of(window, b, m));
  return bytes;
}

matrix::Batch make_batch(const LoaderCore& core, Window& window, std::size_t b) {
  WindowBatch& planned = window.batch(b);
  planned.past_caches =
      plan_batch_bytes(core, window, b) > kCachedBytes / core.options.prefetch_batches;
  matrix::Batch batch;
  batch.others.resize(window.matrices().size() - 1);
  for (std::size_t m = 0; m < window.matrices().size(); ++m)
    batch.block(m) = core.matrices[m].sink->begin(*core.recycler, rows_of(window, b, m));
  batch.rows = planned.plan.rows;
  batch.is_padding = planned.plan.is_padding;
  return batch;
}

std::int64_t finish_batch(const LoaderCore& core, Window& window, std::size_t b,
                          matrix::Batch& batch) {
  for (const MatrixWindow& matrix : window.matrices()) matrix.require_intact(b);
  std::int64_t more = 0;
  for (std::size_t m = 0; m < window.matrices().size(); ++m)
    more += core.matrices[m].sink->finish(*core.recycler, rows_of(window, b, m), batch.block(m));
  ++core.counters->assembled;
  const auto& places = window.batch(b).places;
  for (std::size_t c = 0; c < core.obs.size(); ++c) {
    const auto& column = core.obs[c];
    matrix::ObsValues values{column->dtype(),
                             core.recycler->take_obs(places.size() * dtype_bytes(column->dtype()))};
    column->gather(places, values.bytes.data());
    if (column->is_categorical())
      core.counters->entropy_bits[c] += label_entropy_bits(
          {reinterpret_cast<const std::int64_t*>(values.bytes.data()), places.size()});
    batch.obs.push_back(std::move(values));
  }
  return more;
}

std::shared_ptr<LoadedBatch> read_rows(const LoaderCore& core, std::span<const std::int64_t> rows) {
  for (const std::int64_t row : rows)
    if (row < 0 || row >= core.collection->n_rows())
      throw Error(ErrorKind::kOutOfRange,
                  fmt::format("row {} is outside the collection of {} cells", row,
                              core.collection->n_rows()));
  std::vector<sampling::BatchPlan> plans(1);
  plans[0].rows.assign(rows.begin(), rows.end());
  plans[0].positions.resize(rows.size());
  std::iota(plans[0].positions.begin(), plans[0].positions.end(), std::int64_t{0});
  Window window(core.matrices,
                plan_window(*core.collection, locate_batches(*core.collection, std::move(plans))));
  const auto pool = exec::shared_pool(core.options.threads);
  window.begin({}, *core.counters);
  window.wait(*core.counters);
  window.finish(
      [&](std::int64_t n, const std::function<void(std::int64_t)>& task) {
        pool->parallel_for(n, task, core.inflating_threads);
      },
      *core.counters);
  matrix::Batch batch = make_batch(core, window, 0);
  const auto& slices = window.batch(0).slices;
  pool->parallel_for(static_cast<std::int64_t>(slices.size()), [&](std::int64_t s) {
    window.decode_slice(0, slices[s], core.options.casting, batch, *core.counters);
  });
  finish_batch(core, window, 0, batch);
  return std::make_shared<LoadedBatch>(std::move(batch), core.recycler);
}

}  // namespace cellfeed::loader
