#include "cellfeed/convert/inputs/library_sizes.h"

#include <algorithm>

namespace cellfeed::convert {
namespace {

std::vector<double> totals(const CsrPiece& piece) {
  std::vector<double> totals(static_cast<std::size_t>(piece.n_rows()), 0.0);
  dispatch_dtype(piece.dtype, [&](auto zero) {
    const auto* values = reinterpret_cast<const decltype(zero)*>(piece.values.data());
    for (std::int64_t row = 0; row < piece.n_rows(); ++row)
      for (std::int64_t i = piece.indptr[row]; i < piece.indptr[row + 1]; ++i)
        totals[row] += static_cast<double>(values[i]);
  });
  return totals;
}

}  // namespace

LibrarySizes::LibrarySizes(const Sources& sources, KeptTotals kept)
    : are_kept_(kept == KeptTotals::kAlways) {
  if (kept == KeptTotals::kNever) return;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const auto& known = known_.emplace_back(sources.store(s).known_library_sizes());
    const auto map = sources.gene_map(s);
    if (known || std::ranges::any_of(map, [](std::int32_t column) { return column < 0; }))
      are_kept_ = true;
  }
}

std::vector<double> LibrarySizes::of(std::int64_t source, std::span<const std::int64_t> rows,
                                     const CsrPiece& piece) const {
  if (!are_kept_) return {};
  const auto& known = known_[source];
  if (!known) return totals(piece);
  const auto* sizes = static_cast<const double*>(known->values);
  std::vector<double> found;
  found.reserve(rows.size());
  for (const std::int64_t row : rows) found.push_back(sizes[row]);
  matrix::require_intact(*known);
  return found;
}

}  // namespace cellfeed::convert
