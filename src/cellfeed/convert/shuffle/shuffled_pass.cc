#include <arrow/api.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "cellfeed/convert/shard_passes.h"
#include "cellfeed/convert/shard_sequence.h"
#include "cellfeed/convert/shuffle/cell_shuffle.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

struct ScatteredRows {
  std::size_t matrix = 0;
  std::vector<BucketSlot> slots;
  shard::EncodedRows rows;
};
using ScatterResult = std::variant<ScatteredRows, std::vector<ObsScatter::Piece>>;

// The first pass of a shuffle.
void scatter(const ShardPass& pass, CellShuffle& shuffle) {
  ProgressMeter meter(pass.progress, "shuffling cells", pass.sources().n_cells(),
                      pass.cells_before());
  const std::vector<CellTask> tasks = pass.make_tasks(0, pass.sources().n_cells());
  run_in_order<ScatterResult>(
      pass.pool, std::ssize(tasks), pass.limits,
      [&](std::int64_t i) { return pass.plan_bytes(tasks[i]); },
      [&](std::int64_t i) -> ScatterResult {
        const SourceRange& range = tasks[i].range;
        if (tasks[i].is_obs) return shuffle.scatter_obs(range);
        CellShuffle::WantedRows wanted = shuffle.wanted_rows(range);
        shard::EncodedRows rows;
        const std::size_t matrix = tasks[i].matrix;
        if (!wanted.rows.empty())
          rows = pass.matrices[matrix].encoder.encode(range.source, wanted.rows);
        return ScatteredRows{matrix, std::move(wanted.slots), std::move(rows)};
      },
      [&](std::int64_t i, ScatterResult&& result) {
        if (auto* obs = std::get_if<std::vector<ObsScatter::Piece>>(&result))
          return shuffle.add_obs(*obs);
        auto& scattered = std::get<ScatteredRows>(result);
        const MatrixPass& matrix = pass.matrices[scattered.matrix];
        shuffle.add_rows(scattered.matrix, scattered.slots, scattered.rows);
        matrix.pages.passed(tasks[i].range);
        if (scattered.matrix + 1 == pass.matrices.size()) meter.advance(scattered.rows.n_rows());
        matrix.encoder.give_back(std::move(scattered.rows));
      },
      pass.stop);
}

CellShuffleSpec shuffle_spec(const ShardPass& pass, std::uint64_t seed) {
  CellShuffleSpec spec;
  spec.dir = pass.spec.dir;
  spec.seed = seed;
  spec.shard_size = pass.shard_size;
  spec.is_finished = pass.is_wanted;
  spec.is_finished.flip();
  spec.keeps_library_sizes = pass.matrices[0].encoder.keeps_library_sizes();
  spec.n_matrices = pass.matrices.size();
  for (const MatrixPass& matrix : pass.matrices) {
    std::int64_t row_bytes = matrix.encoder.dense_row_bytes();
    for (std::int64_t s = 0; s < matrix.sources.n_sources(); ++s)
      row_bytes = std::max(row_bytes, static_cast<std::int64_t>(matrix.sources.row_bytes(s)));
    spec.cell_bytes += row_bytes;
  }
  spec.memory_bytes = pass.memory_bytes;
  return spec;
}

}  // namespace

double write_shuffled(const ShardPass& pass, std::uint64_t seed) {
  ProgressMeter meter(pass.progress, "writing shards", pass.sources().n_cells(),
                      pass.cells_before());
  if (std::ranges::none_of(pass.is_wanted, std::identity())) return meter.rate();
  CellShuffle shuffle(pass.sources(), pass.spec.obs_schema, shuffle_spec(pass, seed));
  scatter(pass, shuffle);
  ShardSequence writer(pass.spec, pass.shard_size, pass.sources().n_cells(), pass.finished);
  run_in_order<std::vector<CellShuffle::Part>>(
      pass.pool, shuffle.n_buckets(), pass.limits,
      [&](std::int64_t bucket) { return shuffle.plan_take_bytes(bucket); },
      [&](std::int64_t bucket) { return shuffle.take(bucket); },
      [&](std::int64_t, std::vector<CellShuffle::Part>&& parts) {
        for (CellShuffle::Part& part : parts) {
          const std::int64_t n_rows = part.obs->num_rows();
          writer.append_obs(part.shard, part.obs);
          for (std::size_t m = 0; m < part.matrices.size(); ++m)
            writer.append(part.shard, part.matrices[m], m);
          meter.advance(n_rows);
          if (pass.stop.stop_requested())
            throw Error(ErrorKind::kCancelled, "stopped before the end");
        }
      },
      pass.stop);
  return meter.rate();
}

}  // namespace cellfeed::convert
