#include "cellfeed/collection/added_obs.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cellfeed/base/mix.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::collection {
namespace {

class StoreWithObs final : public format::RowStore {
 public:
  StoreWithObs(std::shared_ptr<const format::RowStore> store, AddedColumns columns)
      : store_(std::move(store)), columns_(std::move(columns)) {}

  const format::RowStore& store() const { return *store_; }

  std::vector<std::string> obs_names() const override {
    std::vector<std::string> names = store_->obs_names();
    for (const auto& field : columns_.filled->fields()) names.push_back(field->name());
    return names;
  }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    if (const auto added = columns_.filled->GetColumnByName(name))
      return matrix::make_fixed_column(name, *added);
    return store_->obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    std::shared_ptr<arrow::Table> obs = store_->read_obs(begin, end);
    const arrow::Table& added = *columns_.shown;
    for (int i = 0; i < added.num_columns(); ++i)
      obs = matrix::check_arrow(obs->AddColumn(obs->num_columns(), added.field(i),
                                               added.column(i)->Slice(begin, end - begin)),
                                "add a column of obs");
    return obs;
  }
  std::uint64_t fingerprint() const override {
    return mix(store_->fingerprint(), columns_.content);
  }
  std::uint64_t whole_fingerprint() const override {
    return mix(store_->whole_fingerprint(), columns_.content);
  }

  const format::StoreInfo& info() const override { return store_->info(); }
  const matrix::GeneAxis& genes() const override { return store_->genes(); }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    return store_->begin(rows, context);
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return store_->plan(rows);
  }
  std::optional<format::PackedRecords> packed_records(std::int64_t begin,
                                                      std::int64_t end) const override {
    return store_->packed_records(begin, end);
  }
  void release_pages() const override { store_->release_pages(); }
  void set_cache_bytes(std::int64_t bytes) const override { store_->set_cache_bytes(bytes); }
  std::shared_ptr<arrow::Table> read_var() const override { return store_->read_var(); }
  std::optional<matrix::FixedColumn> known_library_sizes() const override {
    return store_->known_library_sizes();
  }
  format::Processing processing() const override { return store_->processing(); }
  std::vector<std::int64_t> source_rows(std::span<const std::int64_t> rows) const override {
    return store_->source_rows(rows);
  }
  std::shared_ptr<const io::SeenFiles> seen_files() const override { return store_->seen_files(); }

 private:
  const std::shared_ptr<const format::RowStore> store_;
  const AddedColumns columns_;
};

// The rows of a table, and null for -1.
std::shared_ptr<arrow::Table> take(const std::shared_ptr<arrow::Table>& table,
                                   std::span<const std::int64_t> rows) {
  arrow::Int64Builder builder;
  matrix::check_arrow(builder.Reserve(std::ssize(rows)), "add obs");
  for (const std::int64_t row : rows) {
    if (row < 0)
      builder.UnsafeAppendNull();
    else
      builder.UnsafeAppend(row);
  }
  const std::shared_ptr<arrow::Array> indices = matrix::check_arrow(builder.Finish(), "add obs");
  return matrix::check_arrow(arrow::compute::Take(table, indices), "add obs").table();
}

std::uint64_t hash_of_columns(const arrow::Table& columns) {
  std::uint64_t hash = 0;
  for (int i = 0; i < columns.num_columns(); ++i) {
    const std::string& name = columns.field(i)->name();
    const matrix::FixedColumn column = matrix::make_fixed_column(name, *columns.column(i));
    hash = mix(mix(hash, name), static_cast<std::uint64_t>(column.dtype));
    const auto n = static_cast<std::size_t>(column.length);
    hash = mix(hash, XXH3_64bits(column.values, n * dtype_bytes(column.dtype)));
    if (column.validity != nullptr) hash = mix(hash, XXH3_64bits(column.validity, (n + 7) / 8));
    if (column.is_categorical)
      for (const std::string& text : matrix::category_texts(column)) hash = mix(hash, text);
  }
  return hash;
}

}  // namespace

AddedColumns spread_columns(const std::shared_ptr<arrow::Table>& columns,
                            const RowSelection* selected, std::int64_t n_stored) {
  const std::uint64_t content = hash_of_columns(*columns);
  if (selected == nullptr) return {columns, columns, content};
  std::vector<std::int64_t> row_of(static_cast<std::size_t>(n_stored), -1);
  for (std::int64_t i = 0; i < selected->size(); ++i)
    row_of[static_cast<std::size_t>(selected->row(i))] = i;
  std::shared_ptr<arrow::Table> shown = take(columns, row_of);
  std::ranges::replace(row_of, -1, 0);
  return {take(columns, row_of), std::move(shown), content};
}

std::shared_ptr<const format::RowStore> with_added_obs(
    std::shared_ptr<const format::RowStore> store, const AddedColumns& columns,
    std::int64_t begin) {
  const std::int64_t n_rows = store->info().n_rows;
  return std::make_shared<const StoreWithObs>(
      std::move(store), AddedColumns{columns.filled->Slice(begin, n_rows),
                                     columns.shown->Slice(begin, n_rows), columns.content});
}

const format::RowStore& without_added_obs(const format::RowStore& store) {
  const auto* added = dynamic_cast<const StoreWithObs*>(&store);
  return added == nullptr ? store : without_added_obs(added->store());
}

}  // namespace cellfeed::collection
