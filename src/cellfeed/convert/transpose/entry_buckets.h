// EntryBuckets: the entries of a matrix that is not stored by rows, scattered over buckets of
// neighbouring rows that are each small enough to be sorted in memory. So a matrix of any size is
// read twice from front to back (once to count what rows hold), written once and read once.
// Thread-safe once it is made.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cellfeed/convert/shuffle/bucket_store.h"
#include "cellfeed/convert/transpose/entry_pass.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/entry_store.h"

namespace cellfeed::convert {

class EntryBuckets final : public RowBuckets {
 public:
  // Reads all of the store. Throws what reading throws, kNoSpace, kIo and kCancelled. Lifetime: the
  // store outlives it.
  EntryBuckets(const format::EntryStore& store, exec::ThreadPool& pool,
               const TransposeOptions& options);

  std::int64_t n_buckets() const override { return std::ssize(first_rows_) - 1; }
  std::int64_t bucket_of(std::int64_t row) const override;
  BucketRows rows(std::int64_t bucket) const override;
  std::int64_t bytes(std::int64_t bucket) const override { return buckets_->bytes(bucket); }

 private:
  struct ScatteredPiece {
    std::vector<std::int64_t> ends;  // bytes, of each bucket's part
    std::vector<std::byte> bytes;
  };

  void count_entries(exec::ThreadPool& pool, const TransposeOptions& options);
  void place_rows(std::int64_t memory_bytes);
  void scatter_entries(exec::ThreadPool& pool, const TransposeOptions& options);
  ScatteredPiece scatter_piece(std::int64_t piece) const;

  const format::EntryStore& store_;
  std::int64_t entry_bytes_ = 0;
  std::vector<std::uint32_t> counts_;     // of each row's entries
  std::vector<std::int64_t> first_rows_;  // of each bucket, and the number of rows last
  std::vector<std::uint16_t> bucket_of_;  // of each row
  std::optional<BucketStore> buckets_;
};

}  // namespace cellfeed::convert
