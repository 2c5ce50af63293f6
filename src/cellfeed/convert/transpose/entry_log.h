// EntryLog: the entries of a matrix that are stored row after row, though in another form, kept as
// they come: in memory, then in a temporary file. So they are read once. Thread-safe once it is
// made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cellfeed/convert/shuffle/bucket_store.h"
#include "cellfeed/convert/transpose/entry_pass.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/entry_store.h"

namespace cellfeed::convert {

class EntryLog final : public RowBuckets {
 public:
  // Reads all of the store; null where its rows do not ascend, which the first entries tell mostly.
  // Throws what reading throws, kNoSpace, kIo and kCancelled. Lifetime: the store outlives it.
  static std::unique_ptr<EntryLog> make(const format::EntryStore& store, exec::ThreadPool& pool,
                                        const TransposeOptions& options);

  std::int64_t n_buckets() const override { return std::ssize(first_rows_) - 1; }
  std::int64_t bucket_of(std::int64_t row) const override;
  BucketRows rows(std::int64_t bucket) const override;
  std::int64_t bytes(std::int64_t bucket) const override;

 private:
  struct Run;
  struct Piece;

  EntryLog(const format::EntryStore& store, const TransposeOptions& options);
  // False where rows do not ascend.
  bool read_all(exec::ThreadPool& pool, const TransposeOptions& options);
  void append(const Piece& piece);
  void place_rows(std::int64_t memory_bytes);

  const format::EntryStore& store_;
  const std::int64_t value_bytes_;
  std::int64_t last_row_ = 0;
  std::vector<std::uint32_t> counts_;        // of each row's entries
  std::vector<std::int64_t> first_rows_;     // of each bucket, and the number of rows last
  std::vector<std::int64_t> first_entries_;  // likewise
  BucketStore kept_;                         // columns, then values
};

}  // namespace cellfeed::convert
