#include "cellfeed/convert/shard_sequence.h"

#include <algorithm>
#include <utility>

namespace cellfeed::convert {

std::int64_t ShardSequence::size_of(std::int64_t shard) const {
  return std::min(shard_size_, n_cells_ - shard * shard_size_);
}

void ShardSequence::open(std::int64_t shard) {
  if (shard == number_) return;
  format::shard::ShardSpec spec = spec_;
  spec.cells.shard += shard;
  spec.first_cell += shard * shard_size_;
  writer_.emplace(std::move(spec));
  number_ = shard;
}

void ShardSequence::append_obs(std::int64_t shard, const std::shared_ptr<arrow::Table>& obs) {
  open(shard);
  writer_->append_obs(obs);
}

void ShardSequence::append(std::int64_t shard, format::shard::EncodedRows& rows,
                           std::size_t matrix) {
  open(shard);
  writer_->append(rows, matrix);
  if (writer_->n_cells() < size_of(shard)) return;
  finished_(writer_->finish());
  writer_.reset();
  number_ = -1;
}

}  // namespace cellfeed::convert
