// TransposedStore: the rows of an EntryStore, which it sorts once, through a temporary file where
// memory does not suffice. Rows that are asked for in ascending order are sorted once each.
// Thread-safe once transpose() has returned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cellfeed/convert/transpose/entry_pass.h"
#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

// What a store of an EntryStore's rows has from it: everything but the rows.
class DescribedRows : public format::RowStore {
 public:
  const format::StoreInfo& info() const override { return entries_->info(); }
  const matrix::GeneAxis& genes() const override { return entries_->genes(); }
  std::vector<std::string> obs_names() const override { return entries_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return entries_->obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return entries_->read_obs(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return entries_->read_var(); }
  format::Processing processing() const override { return entries_->processing(); }
  std::uint64_t fingerprint() const override { return entries_->fingerprint(); }

 protected:
  explicit DescribedRows(std::unique_ptr<format::EntryStore> entries)
      : entries_(std::move(entries)) {}
  const format::EntryStore& entries() const { return *entries_; }

 private:
  std::unique_ptr<format::EntryStore> entries_;
};

class TransposedStore final : public DescribedRows {
 public:
  explicit TransposedStore(std::unique_ptr<format::EntryStore> entries);

  // Reads all entries: once where they are stored row after row, else twice. A second call does
  // nothing. REQUIRED before any row is read.
  void transpose(exec::ThreadPool& pool, const TransposeOptions& options) const;

  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override;
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override;

 private:
  friend class TransposedRows;
  // A bucket that several threads need is sorted by the first of them.
  struct Slot {
    std::mutex mutex;
    std::weak_ptr<const BucketRows> rows;  // guarded by mutex
  };
  const RowBuckets& buckets() const;
  std::shared_ptr<const BucketRows> bucket_rows(std::int64_t bucket) const;

  format::RowDecoder decoder_;
  mutable std::unique_ptr<const RowBuckets> buckets_;  // null until they are made
  mutable std::vector<Slot> slots_;
  mutable std::mutex recent_mutex_;
  // Neighbours of what is being read; guarded by recent_mutex_.
  mutable std::array<std::shared_ptr<const BucketRows>, 4> recent_;
  mutable std::size_t next_recent_ = 0;
};

}  // namespace cellfeed::convert
