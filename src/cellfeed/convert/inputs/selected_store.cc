#include "cellfeed/convert/inputs/selected_store.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/collection/row_selection.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::convert {
namespace {

// Of obs that is read around the rows that are wanted, so that memory stays bounded.
constexpr std::int64_t kObsRowsAtOnce = 1 << 16;
// Each is joined and described by itself.
constexpr std::size_t kMaxRuns = 10'000;

class SelectedStore final : public format::RowStore {
 public:
  SelectedStore(std::shared_ptr<const format::RowStore> store,
                std::optional<collection::RowSelection> rows);

  const format::StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return store_->genes(); }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    return store_->begin(stored_rows(rows), context);
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return store_->plan(stored_rows(rows));
  }
  void release_pages() const override { store_->release_pages(); }
  std::vector<std::string> obs_names() const override { return store_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return gather(store_->obs_column(name));
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override;
  std::shared_ptr<arrow::Table> read_var() const override { return store_->read_var(); }
  std::optional<matrix::FixedColumn> known_library_sizes() const override;
  format::Processing processing() const override { return store_->processing(); }
  std::vector<std::int64_t> source_rows(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;
  std::uint64_t whole_fingerprint() const override { return store_->whole_fingerprint(); }

 private:
  std::vector<std::int64_t> stored_rows(std::span<const std::int64_t> rows) const;
  // The chosen rows of a column of the other store.
  matrix::FixedColumn gather(matrix::FixedColumn column) const;
  std::shared_ptr<arrow::Table> gather_obs(const std::vector<std::int64_t>& rows) const;

  const std::shared_ptr<const format::RowStore> store_;
  const std::optional<collection::RowSelection> rows_;  // none: all of them
  format::StoreInfo info_;
};

SelectedStore::SelectedStore(std::shared_ptr<const format::RowStore> store,
                             std::optional<collection::RowSelection> rows)
    : store_(std::move(store)), rows_(std::move(rows)), info_(store_->info()) {
  if (!rows_) return;
  const auto share = [part = static_cast<double>(rows_->size()) /
                             static_cast<double>(info_.n_rows)](std::int64_t of_all) {
    return static_cast<std::int64_t>(part * static_cast<double>(of_all));
  };
  info_.selected = {.n_rows = info_.n_rows, .rows = rows_->hash()};
  info_.n_rows = rows_->size();
  // About so many: plans of memory need no more.
  if (info_.nnz >= 0) info_.nnz = share(info_.nnz);
  info_.bytes_on_disk = share(info_.bytes_on_disk);
}

std::vector<std::int64_t> SelectedStore::stored_rows(std::span<const std::int64_t> rows) const {
  std::vector<std::int64_t> stored(rows.begin(), rows.end());
  if (!rows_) return stored;
  for (std::int64_t& row : stored) {
    if (row < 0 || row >= info_.n_rows)
      throw_error(ErrorKind::kOutOfRange, info_.path, "row {} of {}", row, info_.n_rows);
    row = rows_->row(row);
  }
  return stored;
}

// Rows of the other store, in any order.
std::shared_ptr<arrow::Table> SelectedStore::gather_obs(
    const std::vector<std::int64_t>& rows) const {
  std::vector<std::int64_t> ascending = rows;
  std::ranges::sort(ascending);
  ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
  std::vector<std::shared_ptr<arrow::Table>> parts;
  for (auto first = ascending.begin(); first != ascending.end();) {
    const auto last = std::lower_bound(first, ascending.end(), *first + kObsRowsAtOnce);
    const auto around = store_->read_obs(*first, *(last - 1) + 1);
    std::vector<std::int64_t> places;
    for (auto row = first; row != last; ++row) places.push_back(*row - *first);
    parts.push_back(matrix::take_rows(*around, places));
    first = last;
  }
  const auto table = matrix::check_arrow(arrow::ConcatenateTables(parts), "gather obs of cells");
  if (ascending == rows) return matrix::check_arrow(table->CombineChunks(), "gather obs of cells");
  std::vector<std::int64_t> places;
  for (const std::int64_t row : rows)
    places.push_back(std::lower_bound(ascending.begin(), ascending.end(), row) - ascending.begin());
  return matrix::take_rows(*matrix::check_arrow(table->CombineChunks(), "gather obs of cells"),
                           places);
}

std::shared_ptr<arrow::Table> SelectedStore::read_obs(std::int64_t begin, std::int64_t end) const {
  if (!rows_) return store_->read_obs(begin, end);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin)));
  std::iota(rows.begin(), rows.end(), begin);
  rows = stored_rows(rows);
  return rows.empty() ? store_->read_obs(0, 0) : gather_obs(rows);
}

matrix::FixedColumn SelectedStore::gather(matrix::FixedColumn column) const {
  if (!rows_) return column;
  struct Chosen {
    std::vector<std::byte> values;
    std::vector<std::uint8_t> validity;
  };
  const auto width = static_cast<std::size_t>(dtype_bytes(column.dtype));
  const auto n = static_cast<std::size_t>(rows_->size());
  const auto chosen = std::make_shared<Chosen>();
  chosen->values.resize(n * width);
  if (column.validity != nullptr) chosen->validity.resize((n + 7) / 8);
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(rows_->row(static_cast<std::int64_t>(i)));
    std::memcpy(&chosen->values[i * width],
                static_cast<const std::byte*>(column.values) + row * width, width);
    if (column.validity != nullptr && (column.validity[row / 8] >> (row % 8) & 1) != 0)
      chosen->validity[i / 8] |= static_cast<std::uint8_t>(1U << (i % 8));
  }
  matrix::require_intact(column);
  column.length = rows_->size();
  column.values = chosen->values.data();
  if (column.validity != nullptr) column.validity = chosen->validity.data();
  column.owner = chosen;
  column.check_source = {};
  return column;
}

std::optional<matrix::FixedColumn> SelectedStore::known_library_sizes() const {
  auto sizes = store_->known_library_sizes();
  return sizes ? std::optional(gather(std::move(*sizes))) : std::nullopt;
}

std::vector<std::int64_t> SelectedStore::source_rows(std::span<const std::int64_t> rows) const {
  auto stored = stored_rows(rows);
  auto of_file = store_->source_rows(stored);
  return of_file.empty() && rows_ ? std::move(stored) : std::move(of_file);
}

std::uint64_t SelectedStore::fingerprint() const {
  if (!rows_) return store_->fingerprint();
  return mix(store_->fingerprint(), rows_->hash());
}

}  // namespace

std::unique_ptr<format::RowStore> select_rows(std::shared_ptr<const format::RowStore> store,
                                              const std::vector<std::int64_t>& rows) {
  const std::int64_t n_rows = store->info().n_rows;
  return std::make_unique<SelectedStore>(std::move(store), collection::RowSelection(rows, n_rows));
}

std::vector<std::unique_ptr<format::RowStore>> select_rows(
    SharedStores stores, std::int64_t n_rows,
    const std::function<collection::RowPlace(std::int64_t)>& place_of) {
  std::vector<std::unique_ptr<format::RowStore>> selected;
  std::vector<std::int64_t> run;
  std::int32_t store = -1;
  const auto close_run = [&] {
    if (!run.empty()) selected.push_back(select_rows(stores[store], run));
    run.clear();
  };
  for (std::int64_t i = 0; i < n_rows; ++i) {
    const auto place = place_of(i);
    if (place.store != store) close_run();
    if (selected.size() == kMaxRuns)
      throw_invalid(
          "the cells go back and forth between files more than {} times: write them in the order "
          "of the files (sorted row numbers), and shuffled if the order should be random",
          kMaxRuns);
    store = place.store;
    run.push_back(place.row);
  }
  close_run();
  return selected;
}

std::unique_ptr<format::RowStore> all_rows(std::shared_ptr<const format::RowStore> store) {
  return std::make_unique<SelectedStore>(std::move(store), std::nullopt);
}

}  // namespace cellfeed::convert
