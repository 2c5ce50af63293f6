// ShardSequence: shards written one after the other, each handed on once its files are whole.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "cellfeed/format/shard/shard_writer.h"

namespace cellfeed::convert {

class ShardSequence {
 public:
  // spec: of every shard; number and first cell are those of the first.
  ShardSequence(format::shard::ShardSpec spec, std::int64_t shard_size, std::int64_t n_cells,
                std::function<void(const format::shard::ShardEntry&)> finished)
      : spec_(std::move(spec)),
        shard_size_(shard_size),
        n_cells_(n_cells),
        finished_(std::move(finished)) {}

  // obs of a cell comes before its row. A shard is finished by the last row of the last matrix;
  // what comes next belongs to a later one.
  void append_obs(std::int64_t shard, const std::shared_ptr<arrow::Table>& obs);
  void append(std::int64_t shard, format::shard::EncodedRows& rows, std::size_t matrix = 0);

 private:
  void open(std::int64_t shard);
  std::int64_t size_of(std::int64_t shard) const;

  format::shard::ShardSpec spec_;
  std::int64_t shard_size_;
  std::int64_t n_cells_;
  std::function<void(const format::shard::ShardEntry&)> finished_;
  std::optional<format::shard::ShardWriter> writer_;  // of shard number_
  std::int64_t number_ = -1;
};

}  // namespace cellfeed::convert
