#include <arrow/api.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "cellfeed/convert/shard_passes.h"
#include "cellfeed/convert/shard_sequence.h"
#include "cellfeed/format/shard/obs/obs_schema.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

struct Task {
  std::int64_t shard = 0;
  CellTask cells;
};
using EncodedPart = std::variant<shard::EncodedRows, std::shared_ptr<arrow::Table>>;

std::vector<Task> make_tasks(const ShardPass& pass) {
  std::vector<Task> tasks;
  for (std::int64_t k = 0; k < pass.n_shards(); ++k) {
    if (!pass.is_wanted[k]) continue;
    const std::int64_t begin = k * pass.shard_size;
    for (const CellTask& cells : pass.make_tasks(begin, begin + pass.cells_of(k)))
      tasks.push_back({k, cells});
  }
  return tasks;
}

EncodedPart produce(const ShardPass& pass, const CellTask& task) {
  const SourceRange& range = task.range;
  std::vector<std::int64_t> rows(range.n_cells());
  std::iota(rows.begin(), rows.end(), range.begin);
  if (task.is_obs)
    return shard::conform_obs(pass.sources().read_obs(range), pass.spec.obs_schema,
                              pass.sources().store(range.source).info().path, rows);
  return pass.matrices[task.matrix].encoder.encode(range.source, rows);
}

}  // namespace

CellTaskSizes MatrixPass::task_sizes() const {
  CellTaskSizes sizes;
  if (const std::int64_t row_bytes = encoder.dense_row_bytes())
    sizes.piece_cells =
        std::clamp<std::int64_t>(sizes.piece_bytes / row_bytes, 1, sizes.piece_cells);
  return sizes;
}

std::int64_t MatrixPass::plan_bytes(const SourceRange& range) const {
  const std::int64_t decoded = sources.plan_bytes(range);
  const std::int64_t dense_bytes = encoder.dense_row_bytes() * range.n_cells();
  return decoded + (dense_bytes > 0 ? dense_bytes : decoded / 4);
}

std::int64_t ShardPass::cells_of(std::int64_t shard) const {
  return std::min(shard_size, sources().n_cells() - shard * shard_size);
}

std::int64_t ShardPass::cells_before() const {
  std::int64_t cells = 0;
  for (std::int64_t k = 0; k < n_shards(); ++k) cells += is_wanted[k] ? 0 : cells_of(k);
  return cells;
}

std::vector<CellTask> ShardPass::make_tasks(std::int64_t begin, std::int64_t end) const {
  std::vector<const Sources*> of_matrices;
  std::vector<CellTaskSizes> sizes;
  for (const MatrixPass& matrix : matrices) {
    of_matrices.push_back(&matrix.sources);
    sizes.push_back(matrix.task_sizes());
  }
  return make_cell_tasks(of_matrices, begin, end, sizes);
}

std::int64_t ShardPass::plan_bytes(const CellTask& task) const {
  return task.is_obs ? plan_obs_bytes(sources(), task.range)
                     : matrices[task.matrix].plan_bytes(task.range);
}

double write_in_order(const ShardPass& pass) {
  ProgressMeter meter(pass.progress, "writing shards", pass.sources().n_cells(),
                      pass.cells_before());
  const std::vector<Task> tasks = make_tasks(pass);
  ShardSequence writer(pass.spec, pass.shard_size, pass.sources().n_cells(), pass.finished);
  run_in_order<EncodedPart>(
      pass.pool, std::ssize(tasks), pass.limits,
      [&](std::int64_t i) { return pass.plan_bytes(tasks[i].cells); },
      [&](std::int64_t i) { return produce(pass, tasks[i].cells); },
      [&](std::int64_t i, EncodedPart&& result) {
        if (const auto* obs = std::get_if<std::shared_ptr<arrow::Table>>(&result))
          return writer.append_obs(tasks[i].shard, *obs);
        const CellTask& cells = tasks[i].cells;
        const MatrixPass& matrix = pass.matrices[cells.matrix];
        auto& rows = std::get<shard::EncodedRows>(result);
        writer.append(tasks[i].shard, rows, cells.matrix);
        matrix.encoder.give_back(std::move(rows));
        matrix.pages.passed(cells.range);
        if (cells.matrix + 1 == pass.matrices.size()) meter.advance(cells.range.n_cells());
      },
      pass.stop);
  return meter.rate();
}

}  // namespace cellfeed::convert
