// ShardSequence: shards written one after the other, each entered in the journal once it is whole.
// Not thread-safe. Lifetime: the journal outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_writer.h"

namespace cellfeed::convert {

class ShardSequence {
 public:
  // spec: of every shard, but for its number and first cell.
  ShardSequence(format::shard::ShardSpec spec, std::int64_t shard_size, std::int64_t n_cells,
                format::shard::PartialManifest& journal)
      : spec_(std::move(spec)), shard_size_(shard_size), n_cells_(n_cells), journal_(journal) {}

  // obs of a cell comes before its row. A shard is finished by the last row of the last matrix;
  // what comes next belongs to a later one.
  void append_obs(std::int64_t shard, const std::shared_ptr<arrow::Table>& obs);
  void append(std::int64_t shard, format::shard::EncodedRows rows, std::size_t matrix = 0);

 private:
  void open(std::int64_t shard);
  std::int64_t size_of(std::int64_t shard) const;

  format::shard::ShardSpec spec_;
  std::int64_t shard_size_;
  std::int64_t n_cells_;
  format::shard::PartialManifest& journal_;
  std::optional<format::shard::ShardWriter> writer_;  // of shard number_
  std::int64_t number_ = -1;
};

}  // namespace cellfeed::convert
