// pass_over_pieces: the entries of an EntryStore read once from front to back, by all threads of a
// pool and within a byte budget; and what such passes are given and give: rows in buckets.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::convert {

// What transposing takes.
struct TransposeOptions {
  io::Directory dir;              // of the temporary file, where memory does not suffice
  std::int64_t memory_bytes = 0;  // for entries that are sorted or wait for it
  ProgressCallback progress{};    // in cells
  std::stop_token stop{};
};

// Neighbouring rows: row first_row + i holds entries [offsets[i], offsets[i + 1]), in the order
// they were stored in.
struct BucketRows {
  std::int64_t first_row = 0;
  std::vector<std::int64_t> offsets;
  matrix::Buffer<std::int32_t> columns;
  matrix::Buffer<std::byte> values;
};

// All rows of a store, in buckets that are each small enough to be held in memory. Thread-safe.
class RowBuckets {
 public:
  virtual ~RowBuckets() = default;
  virtual std::int64_t n_buckets() const = 0;
  // REQUIRES: 0 <= row < n_rows.
  virtual std::int64_t bucket_of(std::int64_t row) const = 0;
  // Throws kIo, and kCorruptData where the files were changed meanwhile.
  virtual BucketRows rows(std::int64_t bucket) const = 0;
  virtual std::int64_t bytes(std::int64_t bucket) const = 0;
};

// Entries of so many bytes that a bucket should hold at most, of such a budget.
std::int64_t entries_of_bucket(std::int64_t memory_bytes, std::int64_t entry_bytes);
// First row of each bucket, and the number of rows last. counts: of each row's entries. A row with
// more than most_entries is a bucket of its own.
std::vector<std::int64_t> cut_rows(std::span<const std::uint32_t> counts,
                                   std::int64_t most_entries);

// Throws kCorruptData where a row has more entries than a row may have.
void require_row_size(const format::EntryStore& store, std::int64_t row, std::int64_t n_entries);

// Shows pieces as the cells they would be, were all alike, and gives back the pages of a file that
// is passed over once.
class EntryPass {
 public:
  EntryPass(const format::EntryStore& store, const TransposeOptions& options,
            std::string_view phase);
  // One more piece, of so many entries.
  void passed(std::int64_t n_entries);

 private:
  std::int64_t cells() const;

  const format::EntryStore& store_;
  ProgressMeter meter_;
  const std::int64_t limit_bytes_;
  std::int64_t done_ = 0;
  std::int64_t bytes_ = 0;
};

// produce(piece) runs on the pool; consume(result), which returns the number of entries, on the
// caller, in order. piece_bytes: what one piece takes until it is consumed.
template <typename Result>
void pass_over_pieces(const format::EntryStore& store, exec::ThreadPool& pool,
                      const TransposeOptions& options, std::string_view phase,
                      std::int64_t piece_bytes, const std::function<Result(std::int64_t)>& produce,
                      const std::function<std::int64_t(Result&&)>& consume) {
  EntryPass pass(store, options, phase);
  run_in_order<Result>(
      pool, store.n_pieces(), {options.memory_bytes / 2, 64},
      [&](std::int64_t) { return piece_bytes; }, produce,
      [&](std::int64_t, Result&& result) { pass.passed(consume(std::move(result))); },
      options.stop);
}

}  // namespace cellfeed::convert
