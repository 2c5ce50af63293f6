#include "cellfeed/convert/inputs/joined_var.h"

#include <arrow/api.h>

#include <utility>

#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::convert {
namespace {

// Row of var -> its gene; calls for those that are joined.
template <typename Visit>
void for_joined_rows(std::int64_t n_rows, std::span<const std::int32_t> map, Visit&& visit) {
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const std::int64_t gene = map.empty() ? row : map[static_cast<std::size_t>(row)];
    if (gene >= 0) visit(static_cast<std::size_t>(row), static_cast<std::size_t>(gene));
  }
}

}  // namespace

void JoinedVar::add_source(const arrow::Table& var, std::span<const std::int32_t> map,
                           const std::string& path) {
  // Rows that have a value for some gene and column without one: their number in the part.
  std::vector<std::int64_t> place_of_row(static_cast<std::size_t>(var.num_rows()), -1);
  std::vector<int> columns;
  for (int i = 0; i < var.num_columns(); ++i) {
    const Places& places =
        places_
            .try_emplace(var.field(i)->name(), static_cast<std::size_t>(n_genes_), std::int64_t{-1})
            .first->second;
    bool is_new = parts_.empty();
    for_joined_rows(var.num_rows(), map, [&](std::size_t row, std::size_t gene) {
      if (places[gene] >= 0) return;
      place_of_row[row] = 0;
      is_new = true;
    });
    if (is_new) columns.push_back(i);
  }
  if (columns.empty()) return;

  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < place_of_row.size(); ++row) {
    if (place_of_row[row] < 0) continue;
    place_of_row[row] = n_rows_ + std::ssize(rows);
    rows.push_back(static_cast<std::int64_t>(row));
  }
  for (const int column : columns) {
    Places& places = places_.at(var.field(column)->name());
    for_joined_rows(var.num_rows(), map, [&](std::size_t row, std::size_t gene) {
      if (places[gene] < 0) places[gene] = place_of_row[row];
    });
  }
  n_rows_ += std::ssize(rows);
  parts_.push_back(
      matrix::take_rows(*matrix::check_arrow(var.SelectColumns(columns), "select columns"), rows));
  union_.add_source(*parts_.back(), path);
}

std::shared_ptr<arrow::Table> JoinedVar::finish() {
  union_.finish();
  for (std::size_t p = 0; p < parts_.size(); ++p) parts_[p] = union_.conform(*parts_[p], p);
  const auto all = matrix::check_arrow(arrow::ConcatenateTables(parts_), "join the gene tables");
  arrow::ChunkedArrayVector columns;
  for (int i = 0; i < all->num_columns(); ++i) {
    const auto one = matrix::check_arrow(all->SelectColumns({i}), "select a column");
    columns.push_back(matrix::take_rows(*one, places_.at(all->field(i)->name()))->column(0));
  }
  return arrow::Table::Make(all->schema(), std::move(columns), n_genes_);
}

}  // namespace cellfeed::convert
