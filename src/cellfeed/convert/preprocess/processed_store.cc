#include "cellfeed/convert/preprocess/processed_store.h"

#include <arrow/api.h>
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/matrix/take_rows.h"
#include "cellfeed/transform/normalize.h"

namespace cellfeed::convert {
namespace {

using format::CsrTarget;

class ProcessedStore;

class ProcessedRows final : public format::FetchedRows {
 public:
  ProcessedRows(const ProcessedStore& store, std::vector<std::int64_t> rows,
                const format::ReadContext& context);
  std::int64_t n_rows() const override { return inner_->n_rows(); }
  void wait() override { inner_->wait(); }
  std::int64_t n_tasks() const override { return inner_->n_tasks(); }
  void run(std::int64_t task) override { inner_->run(task); }
  void sizes(std::span<std::int64_t> nnz) const override { inner_->sizes(nnz); }
  void prefetch(std::int64_t begin, std::int64_t end) const override {
    inner_->prefetch(begin, end);
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override;
  std::int64_t bytes_read() const override { return inner_->bytes_read(); }
  std::int64_t bytes_used() const override { return inner_->bytes_used(); }
  std::int64_t bytes_held() const override { return inner_->bytes_held(); }

 private:
  const ProcessedStore& store_;
  std::vector<std::int64_t> rows_;  // of the other store
  std::unique_ptr<format::FetchedRows> inner_;
};

class ProcessedStore final : public format::RowStore {
 public:
  ProcessedStore(const format::RowStore& store, const ProcessingOptions& processing,
                 ProcessedPart part);

  const format::StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return part_.genes; }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    return std::make_unique<ProcessedRows>(*this, stored_rows(rows), context);
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return store_.plan(stored_rows(rows));
  }
  void release_pages() const override { store_.release_pages(); }
  std::vector<std::string> obs_names() const override { return store_.obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override;
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override;
  std::shared_ptr<arrow::Table> read_var() const override {
    return matrix::take_rows(*store_.read_var(), part_.columns);
  }
  std::optional<matrix::FixedColumn> known_library_sizes() const override;
  format::Processing processing() const override { return part_.recorded; }
  std::vector<std::int64_t> source_rows(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;

  const format::RowStore& inner() const { return store_; }
  // Changes the row in place and returns how many entries are left.
  template <typename T>
  std::int32_t process(std::int64_t stored_row, std::int32_t* indices, T* values,
                       std::int32_t n) const;
  DType dtype() const { return info_.value_dtype; }
  bool changes_values() const { return processing_.changes_values(); }

 private:
  std::vector<std::int64_t> stored_rows(std::span<const std::int64_t> rows) const;
  void change_values(transform::Row& row) const;

  const format::RowStore& store_;
  ProcessingOptions processing_;
  ProcessedPart part_;
  format::StoreInfo info_;
  std::vector<std::int32_t> column_map_;  // -1: left out; empty: all stay
  std::optional<matrix::FixedColumn> known_totals_;
  std::optional<transform::NormalizeTotal> normalize_;
  transform::Log1p log_;
};

ProcessedStore::ProcessedStore(const format::RowStore& store, const ProcessingOptions& processing,
                               ProcessedPart part)
    : store_(store),
      processing_(processing),
      part_(std::move(part)),
      info_(store.info()),
      known_totals_(store.known_library_sizes()) {
  if (processing.normalize) normalize_.emplace(processing.target_sum, true);
  if (part_.rows) info_.n_rows = std::ssize(*part_.rows);
  info_.n_cols = std::ssize(part_.columns);
  if (processing.changes_values()) info_.value_dtype = DType::kF32;
  if (info_.n_cols == store.info().n_cols) return;
  column_map_.assign(static_cast<std::size_t>(store.info().n_cols), -1);
  for (std::size_t i = 0; i < part_.columns.size(); ++i)
    column_map_[part_.columns[i]] = static_cast<std::int32_t>(i);
}

std::vector<std::int64_t> ProcessedStore::stored_rows(std::span<const std::int64_t> rows) const {
  std::vector<std::int64_t> stored(rows.begin(), rows.end());
  for (std::int64_t& row : stored) {
    if (row < 0 || row >= info_.n_rows)
      throw_error(ErrorKind::kOutOfRange, info_.path, "row {} of {}", row, info_.n_rows);
    if (part_.rows) row = (*part_.rows)[row];
  }
  return stored;
}

void ProcessedStore::change_values(transform::Row& row) const {
  if (normalize_ && processing_.log_transform) {
    const transform::NormalizedLog1p both(*normalize_, log_);
    return both.apply(row);
  }
  if (normalize_) return normalize_->apply(row);
  log_.apply(row);
}

template <typename T>
std::int32_t ProcessedStore::process(std::int64_t stored_row, std::int32_t* indices, T* values,
                                     std::int32_t n) const {
  transform::Row row{
      .indices = indices, .values = values, .dtype = dtype(), .size = n, .cell = stored_row};
  if (normalize_)
    row.library_size = known_totals_
                           ? transform::library_size(
                                 row, static_cast<const double*>(known_totals_->values)[stored_row])
                           : transform::library_size(row);
  if (!column_map_.empty()) {
    std::int32_t kept = 0;
    for (std::int32_t i = 0; i < n; ++i) {
      const std::int32_t column = column_map_[indices[i]];
      if (column < 0) continue;
      indices[kept] = column;
      values[kept++] = values[i];
    }
    row.size = kept;
  }
  if (changes_values()) change_values(row);
  return row.size;
}

ProcessedRows::ProcessedRows(const ProcessedStore& store, std::vector<std::int64_t> rows,
                             const format::ReadContext& context)
    : store_(store), rows_(std::move(rows)), inner_(store.inner().begin(rows_, context)) {}

void ProcessedRows::decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const {
  CsrTarget rounded = target;
  // Values that are changed are rounded anyway.
  if (store_.changes_values()) rounded.casting = Casting::kSameKind;
  rounded.past_caches = false;
  inner_->decode(begin, end, rounded);
  dispatch_dtype(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = begin; i < end; ++i)
      target.counts[i] =
          store_.process<T>(rows_[i], target.indices + target.place[i],
                            static_cast<T*>(target.values) + target.place[i], target.counts[i]);
  });
}

matrix::FixedColumn ProcessedStore::obs_column(const std::string&) const {
  throw Error(ErrorKind::kInternal, "obs of cells under way is read by rows", info_.path);
}

std::vector<std::int64_t> ProcessedStore::source_rows(std::span<const std::int64_t> rows) const {
  auto stored = stored_rows(rows);
  auto of_file = store_.source_rows(stored);
  return of_file.empty() && part_.rows ? std::move(stored) : std::move(of_file);
}

std::shared_ptr<arrow::Table> ProcessedStore::read_obs(std::int64_t begin, std::int64_t end) const {
  if (!part_.rows) return store_.read_obs(begin, end);
  const auto& rows = *part_.rows;
  if (begin >= end) return store_.read_obs(0, 0);
  const std::int64_t first = rows[begin];
  const auto around = store_.read_obs(first, rows[end - 1] + 1);
  std::vector<std::int64_t> places;
  for (std::int64_t i = begin; i < end; ++i) places.push_back(rows[i] - first);
  return matrix::take_rows(*around, places);
}

// Of values that are changed the totals mean nothing any more.
std::optional<matrix::FixedColumn> ProcessedStore::known_library_sizes() const {
  if (changes_values() || part_.totals.empty()) return std::nullopt;
  matrix::FixedColumn totals;
  totals.name = format::kLibrarySizeColumn;
  totals.dtype = DType::kF64;
  totals.length = std::ssize(part_.totals);
  totals.values = part_.totals.data();
  return totals;
}

std::uint64_t ProcessedStore::fingerprint() const {
  const auto& rows = part_.rows;
  const auto hash_of = [](const std::vector<std::int64_t>& numbers) {
    return XXH3_64bits(numbers.data(), numbers.size() * sizeof(std::int64_t));
  };
  std::uint64_t hash = mix(store_.fingerprint(), part_.recorded.json);
  hash = mix(hash, hash_of(part_.columns));
  return mix(hash, rows ? hash_of(*rows) : 0);
}

}  // namespace

std::unique_ptr<format::RowStore> make_processed_store(const format::RowStore& store,
                                                       const ProcessingOptions& processing,
                                                       ProcessedPart part) {
  return std::make_unique<ProcessedStore>(store, processing, std::move(part));
}

}  // namespace cellfeed::convert
