#include "cellfeed/convert/gene_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cellfeed/convert/inputs/row_reader.h"

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kOrderPieceBytes = 8 << 20;
constexpr std::int64_t kOrderPieceCells = 16384;

void add_piece(const CsrPiece& piece, std::span<const std::int32_t> gene_map,
               std::vector<double>& sums) {
  for_each_entry(piece, gene_map,
                 [&](std::int32_t gene, auto value) { sums[gene] += static_cast<double>(value); });
}

}  // namespace

std::vector<std::int64_t> genes_by_mean(const Sources& sources, exec::ThreadPool& pool,
                                        const PipelineLimits& limits,
                                        const ProgressCallback& progress, std::stop_token stop) {
  const auto pieces = sources.split(0, sources.n_cells(), kOrderPieceCells, kOrderPieceBytes);
  const auto n_genes = static_cast<std::size_t>(sources.genes().size());
  PiecePool pool_of_pieces;
  std::vector<double> sums(n_genes, 0.0);
  PassedPages pages(sources, limits.bytes / 2);
  ProgressMeter meter(progress, "ordering genes", sources.n_cells());
  run_in_order<std::vector<double>>(
      pool, std::ssize(pieces), limits,
      [&](std::int64_t i) {
        return sources.plan_bytes(pieces[i]) + static_cast<std::int64_t>(n_genes * sizeof(double));
      },
      [&](std::int64_t i) {
        const SourceRange& range = pieces[i];
        const auto piece = pool_of_pieces.acquire();
        read_rows(sources.store(range.source), range.begin, range.end, *piece);
        std::vector<double> part(n_genes, 0.0);
        add_piece(*piece, sources.gene_map(range.source), part);
        return part;
      },
      [&](std::int64_t i, std::vector<double>&& part) {
        for (std::size_t g = 0; g < n_genes; ++g) sums[g] += part[g];
        pages.passed(pieces[i]);
        meter.advance(pieces[i].n_cells());
      },
      stop);
  for (double& sum : sums)
    if (std::isnan(sum)) sum = -std::numeric_limits<double>::infinity();
  std::vector<std::int64_t> order(n_genes);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return sums[a] > sums[b]; });
  return order;
}

}  // namespace cellfeed::convert
