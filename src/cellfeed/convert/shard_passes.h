// The passes that write the shards of a conversion: in the order of the inputs, or shuffled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "cellfeed/convert/cell_encoder.h"
#include "cellfeed/convert/cell_tasks.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/shard/shard_writer.h"

namespace cellfeed::convert {

// A matrix that is written. Lifetime: what it refers to outlives the pass.
struct MatrixPass {
  const Sources& sources;
  CellEncoder& encoder;
  PassedPages& pages;

  CellTaskSizes task_sizes() const;
  // What a piece of rows holds while it is read and encoded.
  std::int64_t plan_bytes(const SourceRange& range) const;
};

// What both need. Lifetime: what it refers to outlives the pass.
struct ShardPass {
  std::vector<MatrixPass> matrices;  // of the same cells; obs is that of the first
  exec::ThreadPool& pool;
  format::shard::ShardSpec spec;  // of every shard; number and first cell are those of the first
  std::int64_t shard_size = 0;
  std::vector<bool> is_wanted;  // of all shards, those to write
  // Of each that is written, once its files are whole; on the calling thread.
  std::function<void(const format::shard::ShardEntry&)> finished;
  std::int64_t memory_bytes = 0;  // held by pieces under way
  PipelineLimits limits;
  ProgressCallback progress;
  std::stop_token stop;

  const Sources& sources() const { return matrices[0].sources; }
  std::int64_t n_shards() const { return std::ssize(is_wanted); }
  std::int64_t cells_of(std::int64_t shard) const;
  // Cells of the shards that are not written.
  std::int64_t cells_before() const;
  std::vector<CellTask> make_tasks(std::int64_t begin, std::int64_t end) const;
  std::int64_t plan_bytes(const CellTask& task) const;
};

// Both write the shards that are wanted and return cells per second; their progress counts the
// others as done. Throw kCancelled and what reading, encoding and writing throw.
double write_in_order(const ShardPass& pass);
double write_shuffled(const ShardPass& pass, std::uint64_t seed);

}  // namespace cellfeed::convert
