#include "cellfeed/collection/counts.h"

#include <algorithm>
#include <cmath>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/decoded_rows.h"
#include "cellfeed/format/matrix_list.h"

namespace cellfeed::collection {
namespace {

DecodedRows as_float64(const format::RowStore& store, std::span<const std::int64_t> rows) {
  return decode_rows(store, rows, DType::kF64, Casting::kSameKind);
}

bool is_fraction(double value) { return std::isfinite(value) && value != std::floor(value); }

bool are_counts(const format::RowStore& store, std::span<const std::int64_t> rows) {
  const DecodedRows some = as_float64(store, rows);
  bool has_any = false;
  for (std::size_t row = 0; row < some.size(); ++row)
    for (const double value : some.values_of<double>(row)) {
      if (!std::isfinite(value) || value < 0 || is_fraction(value)) return false;
      has_any |= value > 0;
    }
  return has_any;
}

}  // namespace

std::optional<NoCount> find_no_count(const format::RowStore& store,
                                     std::span<const std::int64_t> rows) {
  const DecodedRows some = as_float64(store, rows);
  std::optional<NoCount> negative, fraction;
  double highest = 0;
  for (std::size_t row = 0; row < some.size(); ++row) {
    const auto values = some.values_of<double>(row);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const double value = values[at];
      if (std::isfinite(value)) highest = std::max(highest, value);
      const bool is_negative = std::isfinite(value) && value < 0;
      if (auto& found = is_negative ? negative : fraction;
          !found && (is_negative || is_fraction(value)))
        found =
            NoCount{rows[row], some.columns.data()[some.place[row] + static_cast<std::int64_t>(at)],
                    value, 0};
    }
  }
  auto found = negative ? negative : fraction;
  if (found) found->highest = highest;
  return found;
}

std::string where_counts_are(const format::RowStore& store, std::span<const std::int64_t> rows) {
  const format::StoreInfo& info = store.info();
  std::string found;
  if (info.format != "h5ad" && info.format != "zarr")
    return fmt::format("start from the matrix that has counts ({}, or the name of a layer)",
                       argument("layer", "raw/X"));
  const std::string modality = format::modality_at(info.root);
  for (const auto& matrix : format::list_matrices(info.path, modality)) {
    if (format::is_obsm(matrix.name) || matrix.name == info.layer) continue;
    try {
      const auto stores =
          format::open_stores(info.path, {.layer = matrix.name, .choice = {.modality = modality}});
      if (!are_counts(*stores.at(0), rows)) continue;
    } catch (const Error& error) {
      if (error.was_not_read()) throw;
      continue;
    }
    found += (found.empty() ? "" : " or ") + argument("layer", format::layer_key(matrix.name));
  }
  return found.empty() ? "no other matrix of the file that is stored by rows has counts"
                       : fmt::format("the counts are there with {}", found);
}

}  // namespace cellfeed::collection
