#include "cellfeed/convert/preprocess/seurat_v3.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/preprocess/highly_variable_genes.h"
#include "cellfeed/convert/preprocess/loess.h"
#include "cellfeed/convert/preprocess/median.h"

namespace cellfeed::convert {
namespace {

constexpr double kSpan = 0.3;

ExpectedVariances expected_of(const BatchSums& batch, const std::vector<std::int64_t>& genes) {
  const auto n = static_cast<double>(batch.n_cells);
  ExpectedVariances out;
  std::vector<double> log_means, log_variances;
  std::vector<std::size_t> varying;
  for (std::size_t i = 0; i < genes.size(); ++i) {
    const double mean = batch.sums[genes[i]] / n;
    const double variance = (batch.squares[genes[i]] / n - mean * mean) * (n / (n - 1));
    out.means.push_back(mean);
    if (!(variance > 0)) continue;
    varying.push_back(i);
    log_means.push_back(std::log10(mean));
    log_variances.push_back(std::log10(variance));
  }
  out.deviations.assign(genes.size(), 1);
  out.varies = !varying.empty();
  if (!out.varies) return out;
  const auto curve = loess(log_means, log_variances, kSpan);
  if (!curve)
    throw_invalid(
        "seurat_v3 lays a curve through the variances of genes, and {} genes{} have too few "
        "different means for that: leave out genes that are in few cells (min_cells){}, or choose "
        "flavor seurat",
        varying.size(), batch.name.empty() ? "" : fmt::format(" in batch '{}'", batch.name),
        batch.name.empty() ? "" : ", choose another batch_key");
  for (std::size_t j = 0; j < varying.size(); ++j)
    out.deviations[varying[j]] = std::sqrt(std::pow(10, (*curve)[j]));
  return out;
}

// Variances of standardised counts.
std::vector<double> standardized_variances(const BatchSums& limited,
                                           const ExpectedVariances& expected,
                                           const std::vector<std::int64_t>& genes) {
  const auto n = static_cast<double>(limited.n_cells);
  std::vector<double> out;
  for (std::size_t i = 0; i < genes.size(); ++i) {
    const double mean = expected.means[i], deviation = expected.deviations[i];
    const double squares =
        n * mean * mean + limited.squares[genes[i]] - 2 * limited.sums[genes[i]] * mean;
    out.push_back(squares / ((n - 1) * deviation * deviation));
  }
  return out;
}

// Places in `values`, the largest first.
std::vector<std::size_t> largest_first(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

}  // namespace

std::vector<ExpectedVariances> expected_variances(const std::vector<BatchSums>& batches,
                                                  const std::vector<std::int64_t>& genes) {
  std::vector<ExpectedVariances> expected;
  for (const BatchSums& batch : batches) {
    require_two_cells(batch);
    expected.push_back(expected_of(batch, genes));
  }
  return expected;
}

CountLimits count_limits(const std::vector<BatchSums>& batches,
                         const std::vector<ExpectedVariances>& expected,
                         const std::vector<std::int64_t>& genes) {
  CountLimits limits;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const double root = std::sqrt(static_cast<double>(batches[b].n_cells));
    std::vector<double>& of_batch = limits[batches[b].name];
    of_batch.assign(batches[b].sums.size(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < genes.size(); ++i)
      of_batch[genes[i]] = expected[b].deviations[i] * root + expected[b].means[i];
  }
  return limits;
}

std::vector<std::int64_t> seurat_v3_genes(const std::vector<BatchSums>& limited,
                                          const std::vector<ExpectedVariances>& expected,
                                          const std::vector<std::int64_t>& genes,
                                          std::int64_t n_top_genes) {
  if (std::ranges::none_of(expected, &ExpectedVariances::varies)) return {};
  const auto n_top = std::min(static_cast<std::size_t>(n_top_genes), genes.size());
  std::vector<std::vector<std::int64_t>> ranks(genes.size());
  for (std::size_t b = 0; b < limited.size(); ++b) {
    const auto order = largest_first(standardized_variances(limited[b], expected[b], genes));
    for (std::size_t rank = 0; rank < n_top; ++rank)
      ranks[order[rank]].push_back(static_cast<std::int64_t>(rank));
  }
  std::vector<double> medians;
  for (const auto& of_gene : ranks)
    medians.push_back(median_of(of_gene, std::numeric_limits<double>::infinity()));
  std::vector<std::size_t> order(genes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (medians[a] != medians[b]) return medians[a] < medians[b];
    return ranks[a].size() > ranks[b].size();
  });
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < n_top; ++i) chosen.push_back(genes[order[i]]);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace cellfeed::convert
