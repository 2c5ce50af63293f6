#include "cellfeed/collection/added_obs.h"

#include <arrow/api.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cellfeed/base/mix.h"
#include "cellfeed/format/forwarding_store.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/obs.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::collection {
namespace {

class StoreWithObs final : public format::ForwardingStore {
 public:
  StoreWithObs(std::shared_ptr<const format::RowStore> store, AddedColumns columns)
      : ForwardingStore(std::move(store)), columns_(std::move(columns)) {}

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

 private:
  const AddedColumns columns_;
};

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
  std::shared_ptr<arrow::Table> shown = matrix::take_rows(*columns, row_of);
  std::ranges::replace(row_of, -1, 0);
  return {matrix::take_rows(*columns, row_of), std::move(shown), content};
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
