#include "cellfeed/collection/counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/matrix_list.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::collection {
namespace {

// Rows as float64.
class SomeRows {
 public:
  SomeRows(const format::RowStore& store, std::span<const std::int64_t> rows) {
    const auto fetched = format::fetch_rows(store, rows);
    const auto n = static_cast<std::size_t>(fetched->n_rows());
    place_.resize(n + 1);
    counts_.resize(n);
    fetched->sizes(std::span(place_).subspan(1));
    std::partial_sum(place_.begin(), place_.end(), place_.begin());
    columns_.reset(static_cast<std::size_t>(place_.back()));
    values_.reset(static_cast<std::size_t>(place_.back()));
    fetched->decode(0, fetched->n_rows(),
                    {place_.data(), columns_.data(), values_.data(), DType::kF64,
                     Casting::kSameKind, counts_.data(), false});
  }

  std::size_t size() const { return counts_.size(); }
  std::span<const double> values(std::size_t row) const {
    return {values_.data() + place_[row], static_cast<std::size_t>(counts_[row])};
  }
  std::int32_t column(std::size_t row, std::size_t at) const {
    return columns_.data()[place_[row] + static_cast<std::int64_t>(at)];
  }

 private:
  std::vector<std::int64_t> place_;
  std::vector<std::int32_t> counts_;
  matrix::Buffer<std::int32_t> columns_;
  matrix::Buffer<double> values_;
};

bool is_fraction(double value) { return std::isfinite(value) && value != std::floor(value); }

bool are_counts(const format::RowStore& store, std::span<const std::int64_t> rows) {
  const SomeRows some(store, rows);
  bool has_any = false;
  for (std::size_t row = 0; row < some.size(); ++row)
    for (const double value : some.values(row)) {
      if (!std::isfinite(value) || value < 0 || is_fraction(value)) return false;
      has_any |= value > 0;
    }
  return has_any;
}

}  // namespace

std::optional<NoCount> find_no_count(const format::RowStore& store,
                                     std::span<const std::int64_t> rows) {
  const SomeRows some(store, rows);
  std::optional<NoCount> negative, fraction;
  double highest = 0;
  for (std::size_t row = 0; row < some.size(); ++row) {
    const auto values = some.values(row);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const double value = values[at];
      if (std::isfinite(value)) highest = std::max(highest, value);
      const bool is_negative = std::isfinite(value) && value < 0;
      if (auto& found = is_negative ? negative : fraction;
          !found && (is_negative || is_fraction(value)))
        found = NoCount{rows[row], some.column(row, at), value, 0};
    }
  }
  auto found = negative ? negative : fraction;
  if (found) found->highest = highest;
  return found;
}

std::string matrices_of_counts(const format::RowStore& store, std::span<const std::int64_t> rows) {
  const format::StoreInfo& info = store.info();
  std::string found;
  if (info.format != "h5ad" && info.format != "zarr") return found;
  const std::string modality = format::modality_at(info.root);
  for (const auto& matrix : format::list_matrices(info.path, modality)) {
    if (format::is_obsm(matrix.name) || matrix.name == info.layer) continue;
    try {
      const auto stores =
          format::open_stores(info.path, {.layer = matrix.name, .modality = modality});
      if (!are_counts(*stores.at(0), rows)) continue;
    } catch (const Error& error) {
      if (error.was_not_read()) throw;
      continue;
    }
    found +=
        fmt::format("{}layer=\"{}\"", found.empty() ? "" : " or ", format::layer_key(matrix.name));
  }
  return found;
}

}  // namespace cellfeed::collection
