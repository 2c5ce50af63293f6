// MemoryStore: rows, obs and var as they were handed in.
#include "cellfeed/format/memory/memory_store.h"

#include <arrow/api.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/memory/table_content.h"

namespace cellfeed::format::memory {
namespace {

void check(const arrow::Status& status) {
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString());
}

std::shared_ptr<arrow::Table> numbered_table(const char* prefix, std::int64_t n) {
  arrow::StringBuilder builder;
  for (std::int64_t i = 0; i < n; ++i) check(builder.Append(fmt::format("{}_{}", prefix, i)));
  std::shared_ptr<arrow::Array> names;
  check(builder.Finish(&names));
  return arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8())}), {names}, n);
}

void check_table(const arrow::Table& table, const char* what, std::int64_t rows) {
  if (table.num_rows() != rows)
    throw_invalid("{} must have one row for each of the matrix: {} rows, expected {}", what,
                  table.num_rows(), rows);
  if (table.num_columns() == 0 || table.field(0)->name() != "_index")
    throw_invalid("the first column of {} must be '_index'", what);
}

class MemoryStore;

class MemoryRows final : public FetchedRows {
 public:
  MemoryRows(const MemoryStore& store, std::span<const std::int64_t> rows)
      : store_(store), rows_(rows.begin(), rows.end()) {}
  std::int64_t n_rows() const override { return static_cast<std::int64_t>(rows_.size()); }
  void sizes(std::span<std::int64_t> nnz) const override;
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override;
  std::int64_t bytes_read() const override { return bytes_used(); }
  std::int64_t bytes_used() const override;

 private:
  const MemoryStore& store_;
  std::vector<std::int64_t> rows_;
};

class MemoryStore final : public RowStore {
 public:
  MemoryStore(StoredCsr rows, std::shared_ptr<arrow::Table> obs, std::shared_ptr<arrow::Table> var,
              std::string path, Processing processing);
  const StoreInfo& info() const override { return info_; }
  Processing processing() const override { return processing_; }
  const matrix::GeneAxis& genes() const override { return genes_; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext&) const override {
    for (const std::int64_t row : rows)
      if (row < 0 || row >= rows_.n_rows)
        throw_error(ErrorKind::kOutOfRange, info_.path, "row out of range: {}, rows {}", row,
                    rows_.n_rows);
    return std::make_unique<MemoryRows>(*this, rows);
  }
  ReadPlan plan(std::span<const std::int64_t>) const override { return {}; }
  std::vector<std::string> obs_names() const override {
    std::vector<std::string> names = obs_->schema()->field_names();
    names.erase(names.begin());
    return names;
  }
  matrix::FixedColumn obs_column(const std::string& name) const override;
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    if (begin < 0 || begin > end || end > rows_.n_rows)
      throw_error(ErrorKind::kOutOfRange, info_.path, "obs rows out of range: [{}, {}), rows {}",
                  begin, end, rows_.n_rows);
    return obs_->Slice(begin, end - begin);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return var_; }
  std::uint64_t fingerprint() const override;

 private:
  friend class MemoryRows;
  StoredCsr rows_;
  std::shared_ptr<arrow::Table> obs_;
  std::shared_ptr<arrow::Table> var_;
  StoreInfo info_;
  matrix::GeneAxis genes_;
  std::unique_ptr<RowDecoder> decoder_;
  const Processing processing_;
  mutable std::atomic<std::uint64_t> fingerprint_ = 0;  // once it is known
};

void check_indptr(const StoredCsr& rows) {
  if (rows.indptr.size() != static_cast<std::size_t>(rows.n_rows) + 1 || rows.indptr[0] != 0)
    throw_invalid("indptr must have n_rows + 1 entries and start at 0: {} entries, {} rows",
                  rows.indptr.size(), rows.n_rows);
  for (std::int64_t row = 0; row < rows.n_rows; ++row)
    if (rows.indptr[row + 1] < rows.indptr[row])
      throw_invalid("indptr must not decrease: row {}, {} to {}", row, rows.indptr[row],
                    rows.indptr[row + 1]);
  const auto nnz = static_cast<std::size_t>(rows.indptr[rows.n_rows]);
  if (rows.indices.size() != nnz || rows.values.size() != nnz * dtype_bytes(rows.dtype))
    throw_invalid("indices and values must have as many entries as indptr says: {}", nnz);
}

MemoryStore::MemoryStore(StoredCsr rows, std::shared_ptr<arrow::Table> obs,
                         std::shared_ptr<arrow::Table> var, std::string path, Processing processing)
    : rows_(std::move(rows)),
      obs_(std::move(obs)),
      var_(std::move(var)),
      processing_(std::move(processing)) {
  check_indptr(rows_);
  if (!obs_) obs_ = numbered_table("cell", rows_.n_rows);
  if (!var_) var_ = numbered_table("gene", rows_.n_cols);
  check_table(*obs_, "obs", rows_.n_rows);
  check_table(*var_, "var", rows_.n_cols);
  info_ = {.path = path,
           .format = "memory",
           .layer = "X",
           .n_rows = rows_.n_rows,
           .n_cols = rows_.n_cols,
           .nnz = rows_.indptr[rows_.n_rows],
           .value_dtype = rows_.dtype,
           .is_dense = false,
           .compression = "none",
           .rows_per_chunk = 1,
           .bytes_on_disk = 0};
  for (std::int64_t i = 0; i < rows_.n_cols; ++i) {
    const auto name = var_->column(0)->GetScalar(i);
    check(name.status());
    genes_.names.push_back((*name)->ToString());
  }
  decoder_ = std::make_unique<RowDecoder>(path, "X", rows_.n_cols, DType::kI32, rows_.dtype);
}

matrix::FixedColumn MemoryStore::obs_column(const std::string& name) const {
  const auto column = obs_->GetColumnByName(name);
  if (!column)
    throw_error(ErrorKind::kNoSuchKey, info_.path, "no obs column '{}'{}", name,
                suggestion(name, obs_names()));
  return matrix::make_fixed_column(name, *column);
}

std::uint64_t MemoryStore::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  const auto hash_of = [](const auto& array) {
    return XXH3_64bits(array.data(), array.size() * sizeof(array[0]));
  };
  std::uint64_t hash = static_cast<std::uint64_t>(rows_.dtype);
  for (const std::uint64_t part : {hash_of(rows_.indptr), hash_of(rows_.indices),
                                   hash_of(rows_.values), static_cast<std::uint64_t>(rows_.n_cols)})
    hash = mix(hash, part);
  for (const auto& name : genes_.names) hash = mix(hash, name);
  hash = mix(hash, table_content(*obs_));
  fingerprint_ = std::max<std::uint64_t>(1, hash);
  return fingerprint_;
}

void MemoryRows::sizes(std::span<std::int64_t> nnz) const {
  for (std::size_t i = 0; i < rows_.size(); ++i)
    nnz[i] = store_.rows_.indptr[rows_[i] + 1] - store_.rows_.indptr[rows_[i]];
}

void MemoryRows::decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const {
  const StoredCsr& stored = store_.rows_;
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(stored.dtype));
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t start = stored.indptr[rows_[i]];
    const std::int64_t length = stored.indptr[rows_[i] + 1] - start;
    const RowPiece indices{reinterpret_cast<const std::byte*>(stored.indices.data() + start),
                           length};
    const RowPiece values{stored.values.data() + start * value_bytes, length};
    target.counts[i] = store_.decoder_->decode(
        rows_[i], {&indices, 1}, {&values, 1}, target.dtype, target.casting,
        target.indices + target.place[i],
        static_cast<std::byte*>(target.values) + target.place[i] * out_bytes,
        {.past_caches = target.past_caches});
  }
  publish_row_copies(target.past_caches);
}

std::int64_t MemoryRows::bytes_used() const {
  const auto entry =
      static_cast<std::int64_t>(sizeof(std::int32_t) + dtype_bytes(store_.rows_.dtype));
  std::int64_t bytes = 0;
  for (const std::int64_t row : rows_)
    bytes += (store_.rows_.indptr[row + 1] - store_.rows_.indptr[row]) * entry;
  return bytes;
}

}  // namespace

StoredCsr make_stored_csr(const matrix::CsrBlock& block, DType dtype) {
  StoredCsr stored;
  stored.n_rows = block.n_rows;
  stored.n_cols = block.n_cols;
  stored.dtype = dtype;
  stored.indptr.reset(block.indptr.size());
  std::copy(block.indptr.begin(), block.indptr.end(), stored.indptr.begin());
  stored.indices.reset(block.indices.size());
  std::copy(block.indices.begin(), block.indices.end(), stored.indices.begin());
  stored.values.reset(block.indices.size() * dtype_bytes(dtype));
  std::visit(
      [&](const auto& values) {
        dispatch_dtype(dtype, [&](auto to) {
          using To = decltype(to);
          auto* out = reinterpret_cast<To*>(stored.values.data());
          for (std::size_t i = 0; i < values.size(); ++i) {
            bool exact = true;
            if constexpr (std::is_same_v<To, bool>) {
              out[i] = values[i] != 0;
              exact = values[i] == 0 || values[i] == 1;
            } else {
              out[i] = convert_value<To>(values[i], &exact);
            }
            if (!exact)
              throw_error(ErrorKind::kPrecision, "", "value does not fit {} exactly: {}",
                          dtype_name(dtype), values[i]);
          }
        });
      },
      block.values);
  return stored;
}

StoredCsr make_stored_csr(const matrix::CsrBlock& block) {
  return make_stored_csr(block, matrix::value_buffer_dtype(block.values));
}

std::unique_ptr<RowStore> make_memory_store(StoredCsr rows, std::shared_ptr<arrow::Table> obs,
                                            std::shared_ptr<arrow::Table> var, std::string path,
                                            Processing processing) {
  return std::make_unique<MemoryStore>(std::move(rows), std::move(obs), std::move(var),
                                       std::move(path), std::move(processing));
}

}  // namespace cellfeed::format::memory
