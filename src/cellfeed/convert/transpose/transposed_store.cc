#include "cellfeed/convert/transpose/transposed_store.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/transpose/entry_buckets.h"
#include "cellfeed/convert/transpose/entry_log.h"

namespace cellfeed::convert {

// Rows of some buckets; a bucket is one task.
class TransposedRows final : public format::FetchedRows {
 public:
  TransposedRows(const TransposedStore& store, std::span<const std::int64_t> rows)
      : store_(store),
        value_bytes_(static_cast<std::int64_t>(dtype_bytes(store.info().value_dtype))),
        rows_(rows.begin(), rows.end()) {
    for (const std::int64_t row : rows_) {
      if (row < 0 || row >= store.info().n_rows)
        throw_error(ErrorKind::kOutOfRange, store.info().path, "row out of range: {}, rows {}", row,
                    store.info().n_rows);
      numbers_.push_back(store.buckets().bucket_of(row));
    }
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    held_.resize(numbers_.size());
  }

  std::int64_t n_rows() const override { return std::ssize(rows_); }
  std::int64_t n_tasks() const override { return std::ssize(numbers_); }
  void run(std::int64_t task) override {
    held_[static_cast<std::size_t>(task)] =
        store_.bucket_rows(numbers_[static_cast<std::size_t>(task)]);
  }
  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < rows_.size(); ++i) nnz[i] = indices_of(rows_[i]).length;
  }
  void decode(std::int64_t begin, std::int64_t end,
              const format::CsrTarget& target) const override {
    const auto width = static_cast<std::int64_t>(dtype_bytes(target.dtype));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = rows_[static_cast<std::size_t>(i)];
      const format::RowPiece indices = indices_of(row), values = values_of(row);
      target.counts[i] =
          store_.decoder_.decode(row, {&indices, 1}, {&values, 1}, target.dtype, target.casting,
                                 target.indices + target.place[i],
                                 static_cast<std::byte*>(target.values) + target.place[i] * width,
                                 {.past_caches = target.past_caches});
    }
  }
  std::int64_t bytes_read() const override {
    std::int64_t bytes = 0;
    for (const std::int64_t bucket : numbers_) bytes += store_.buckets().bytes(bucket);
    return bytes;
  }
  std::int64_t bytes_used() const override { return bytes_read(); }
  std::int64_t bytes_held() const override {
    std::int64_t bytes = 0;
    for (const auto& rows : held_)
      if (rows)
        bytes += static_cast<std::int64_t>(rows->columns.size() * sizeof(std::int32_t) +
                                           rows->values.size());
    return bytes;
  }

 private:
  const BucketRows& rows_with(std::int64_t row) const {
    const auto at =
        std::lower_bound(numbers_.begin(), numbers_.end(), store_.buckets().bucket_of(row)) -
        numbers_.begin();
    return *held_[static_cast<std::size_t>(at)];
  }
  format::RowPiece piece(std::int64_t row, const BucketRows& rows, const std::byte* data,
                         std::int64_t width) const {
    const auto at = static_cast<std::size_t>(row - rows.first_row);
    return {data + rows.offsets[at] * width, rows.offsets[at + 1] - rows.offsets[at]};
  }
  format::RowPiece indices_of(std::int64_t row) const {
    const BucketRows& rows = rows_with(row);
    return piece(row, rows, reinterpret_cast<const std::byte*>(rows.columns.data()),
                 sizeof(std::int32_t));
  }
  format::RowPiece values_of(std::int64_t row) const {
    const BucketRows& rows = rows_with(row);
    return piece(row, rows, rows.values.data(), value_bytes_);
  }

  const TransposedStore& store_;
  const std::int64_t value_bytes_;
  const std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> numbers_;  // of the buckets
  std::vector<std::shared_ptr<const BucketRows>> held_;
};

TransposedStore::TransposedStore(std::unique_ptr<format::EntryStore> entries)
    : DescribedRows(std::move(entries)),
      decoder_(info().path, info().layer, info().n_cols, DType::kI32, info().value_dtype) {}

void TransposedStore::transpose(exec::ThreadPool& pool, const TransposeOptions& options) const {
  if (buckets_) return;
  buckets_ = EntryLog::make(entries(), pool, options);
  if (!buckets_) buckets_ = std::make_unique<EntryBuckets>(entries(), pool, options);
  slots_ = std::vector<Slot>(static_cast<std::size_t>(buckets_->n_buckets()));
}

const RowBuckets& TransposedStore::buckets() const {
  if (!buckets_)
    throw Error(ErrorKind::kInternal, "rows are read before they are transposed", info().path);
  return *buckets_;
}

std::unique_ptr<format::FetchedRows> TransposedStore::begin(std::span<const std::int64_t> rows,
                                                            const format::ReadContext&) const {
  return std::make_unique<TransposedRows>(*this, rows);
}

format::ReadPlan TransposedStore::plan(std::span<const std::int64_t> rows) const {
  const TransposedRows fetched(*this, rows);
  return {.bytes_held = 2 * fetched.bytes_read(), .bytes_inflated = 0};
}

std::shared_ptr<const BucketRows> TransposedStore::bucket_rows(std::int64_t bucket) const {
  Slot& slot = slots_[static_cast<std::size_t>(bucket)];
  const std::lock_guard lock(slot.mutex);
  if (auto known = slot.rows.lock()) return known;
  const auto rows = std::make_shared<const BucketRows>(buckets().rows(bucket));
  slot.rows = rows;
  const std::lock_guard recent_lock(recent_mutex_);
  recent_[next_recent_] = rows;
  next_recent_ = (next_recent_ + 1) % recent_.size();
  return rows;
}

}  // namespace cellfeed::convert
