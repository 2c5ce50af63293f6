// CellShuffle: the two passes that put the cells of all inputs in another order, in bounded memory.
// The first reads inputs from front to back and scatters encoded rows and obs over buckets of
// consecutive positions; the second takes buckets one by one and puts each in order.
//
// Reading in storage order is what makes it fast for every kind of input: compressed chunks are
// inflated once, and plain files are read as fast as the disk allows.
//
// Thread-safe: slots_of, scatter_obs and wanted_rows; take() of different buckets after the last
// add. The rest is for one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/shuffle/bucket_store.h"
#include "cellfeed/convert/shuffle/cell_order.h"
#include "cellfeed/convert/shuffle/obs_scatter.h"
#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::convert {

struct CellShuffleSpec {
  io::Directory dir;  // for temporary files
  std::uint64_t seed = 0;
  std::int64_t shard_size = 0;
  std::vector<bool> is_finished;     // a shard: its cells are left out
  bool keeps_library_sizes = false;  // of the first matrix
  std::size_t n_matrices = 1;        // of the same cells
  std::int64_t cell_bytes = 0;       // of an encoded cell in all of them, at most about
  std::int64_t memory_bytes = 0;     // held by both passes
};

class CellShuffle {
 public:
  // Consecutive cells of one shard.
  struct Part {
    std::int64_t shard = 0;
    std::int64_t begin = 0;  // in the bucket
    std::shared_ptr<arrow::Table> obs;
    std::vector<format::shard::EncodedRows> matrices;
  };

  // Lifetime: sources outlive this.
  CellShuffle(const Sources& sources, const std::shared_ptr<arrow::Schema>& obs_schema,
              const CellShuffleSpec& spec);

  std::int64_t n_buckets() const { return n_buckets_; }
  // Rows of the source that are to be written, in order, and where each goes.
  struct WantedRows {
    std::vector<std::int64_t> rows;
    std::vector<BucketSlot> slots;
  };
  WantedRows wanted_rows(const SourceRange& range) const;

  std::vector<ObsScatter::Piece> scatter_obs(const SourceRange& range);
  void add_obs(const std::vector<ObsScatter::Piece>& pieces);
  // Slots and rows of one wanted_rows().
  void add_rows(std::size_t matrix, std::span<const BucketSlot> slots,
                const format::shard::EncodedRows& rows);

  // What take() of the bucket will hold, about.
  std::int64_t plan_take_bytes(std::int64_t bucket) const;
  // Cells of unfinished shards at the bucket's positions, in order.
  std::vector<Part> take(std::int64_t bucket);

 private:
  void take_rows(std::size_t matrix, std::int64_t bucket, std::vector<Part>& parts);
  BucketSlot slot_of(std::int64_t source, std::int64_t row) const;
  std::int64_t begin_of(std::int64_t bucket) const { return bucket * bucket_cells_; }

  const Sources& sources_;
  CellShuffleSpec spec_;
  CellOrder order_;
  std::int64_t bucket_cells_;
  std::int64_t n_buckets_;
  std::vector<std::unique_ptr<BucketStore>> rows_;  // of each matrix
  BucketStore obs_;
  ObsScatter obs_scatter_;
};

}  // namespace cellfeed::convert
