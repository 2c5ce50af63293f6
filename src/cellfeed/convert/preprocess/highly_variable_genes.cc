#include "cellfeed/convert/preprocess/highly_variable_genes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/preprocess/median.h"

namespace cellfeed::convert {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kSeuratBins = 20;
constexpr double kNormalQuartile = 0.6744897501960817;  // of the standard normal distribution

using Numbers = std::vector<double>;

struct Dispersions {
  Numbers means, values;
};

// As sparse means and variances with R's n - 1; zero means become 1e-12.
Dispersions dispersions_of(const BatchSums& batch, const std::vector<std::int64_t>& genes,
                           HvgFlavor flavor) {
  const auto n = static_cast<double>(batch.n_cells);
  Dispersions out;
  for (const std::int64_t gene : genes) {
    double mean = batch.sums[gene] / n;
    const double variance = (batch.squares[gene] / n - mean * mean) * (n / (n - 1));
    if (mean == 0) mean = 1e-12;
    double dispersion = variance / mean;
    if (flavor == HvgFlavor::kSeurat) {
      dispersion = dispersion == 0 ? kNan : std::log(dispersion);
      mean = std::log1p(mean);
    }
    out.means.push_back(mean);
    out.values.push_back(dispersion);
  }
  return out;
}

// pandas.cut with a number of bins.
Numbers equal_edges(const Numbers& means) {
  auto [low, high] = std::ranges::minmax(means);
  Numbers edges(kSeuratBins + 1);
  const bool is_flat = low == high;
  if (is_flat) {
    const double half = low != 0 ? 0.001 * std::abs(low) : 0.001;
    low -= half;
    high += half;
  }
  const double step = (high - low) / static_cast<double>(kSeuratBins);
  for (std::size_t i = 0; i <= kSeuratBins; ++i) edges[i] = low + static_cast<double>(i) * step;
  edges.back() = high;
  if (!is_flat) edges.front() -= (high - low) * 0.001;
  return edges;
}

// numpy.percentile, linear; sorted is not empty.
double percentile(const Numbers& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const double a = sorted[low], b = sorted[std::min(low + 1, sorted.size() - 1)];
  const double t = at - std::floor(at);
  return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

Numbers percentile_edges(const Numbers& means) {
  Numbers sorted = means;
  std::ranges::sort(sorted);
  Numbers edges = {-kInfinity};
  for (int percent = 10; percent <= 100; percent += 5)
    edges.push_back(percentile(sorted, percent / 100.0));
  edges.push_back(kInfinity);
  if (std::ranges::adjacent_find(edges) != edges.end())
    throw_invalid(
        "cell_ranger sorts genes into bins by their mean, and too many genes have the same one "
        "(such as 0) for that; leave out genes that are in few cells (min_cells), or choose "
        "seurat");
  return edges;
}

// Of each gene its bin: the edge above it, both as pandas.cut (right-closed).
std::vector<std::size_t> bins_of(const Numbers& means, HvgFlavor flavor) {
  const Numbers edges = flavor == HvgFlavor::kSeurat ? equal_edges(means) : percentile_edges(means);
  std::vector<std::size_t> bins;
  for (const double mean : means)
    bins.push_back(static_cast<std::size_t>(std::ranges::lower_bound(edges, mean) - edges.begin()));
  return bins;
}

struct Center {
  double average = kNan, deviation = kNan;
};

// Mean and standard deviation (n - 1). A bin of one gene gives it a normalised dispersion of 1.
Center seurat_center(const Numbers& values) {
  Center center;
  if (values.empty()) return {0, kNan};
  const auto n = static_cast<double>(values.size());
  center.average = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() == 1) return {0, center.average};
  double squares = 0;
  for (const double value : values) squares += (value - center.average) * (value - center.average);
  center.deviation = std::sqrt(squares / (n - 1));
  return center;
}

// Median and median absolute deviation, scaled to the normal distribution's standard deviation.
Center cell_ranger_center(const Numbers& values) {
  Center center{.average = median_of(values, kNan)};
  Numbers distances;
  for (const double value : values)
    distances.push_back(std::abs((value - center.average) / kNormalQuartile));
  center.deviation = median_of(distances, kNan);
  return center;
}

Numbers normalized_dispersions(const Dispersions& dispersions, HvgFlavor flavor) {
  const auto bins = bins_of(dispersions.means, flavor);
  std::vector<Numbers> members(*std::ranges::max_element(bins) + 1);
  for (std::size_t i = 0; i < bins.size(); ++i)
    if (!std::isnan(dispersions.values[i])) members[bins[i]].push_back(dispersions.values[i]);
  std::vector<Center> centers;
  for (const Numbers& values : members)
    centers.push_back(flavor == HvgFlavor::kSeurat ? seurat_center(values)
                                                   : cell_ranger_center(values));
  Numbers normalized;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const Center& center = centers[bins[i]];
    normalized.push_back((dispersions.values[i] - center.average) / center.deviation);
  }
  return normalized;
}

// What scanpy compares with the n-th highest value: numpy.nan_to_num(value, nan=-inf), by which no
// value is as high as infinity.
double compared(double value) {
  if (std::isnan(value)) return -kInfinity;
  return std::clamp(value, std::numeric_limits<double>::lowest(),
                    std::numeric_limits<double>::max());
}

// Those with at least the n-th highest.
std::vector<bool> highest(const Numbers& values, std::int64_t n) {
  Numbers known;
  std::ranges::copy_if(values, std::back_inserter(known), [](double v) { return !std::isnan(v); });
  std::vector<bool> is_high(values.size(), false);
  if (known.empty()) return is_high;
  const auto last = static_cast<std::size_t>(std::min<std::int64_t>(n, std::ssize(known))) - 1;
  std::ranges::nth_element(known, known.begin() + static_cast<std::ptrdiff_t>(last),
                           std::greater<>());
  for (std::size_t i = 0; i < values.size(); ++i) is_high[i] = compared(values[i]) >= known[last];
  return is_high;
}

// Genes by how many batches they are highly variable in, then by their mean normalised dispersion.
std::vector<std::int64_t> join_batches(const std::vector<BatchSums>& batches,
                                       const std::vector<std::int64_t>& genes,
                                       const std::vector<std::string>& names, HvgFlavor flavor,
                                       std::int64_t n_top_genes) {
  std::vector<std::int64_t> times(genes.size(), 0), known(genes.size(), 0);
  Numbers sums(genes.size(), 0);
  for (const BatchSums& batch : batches) {
    std::vector<std::int64_t> expressed;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < genes.size(); ++i) {
      if (batch.sums[genes[i]] > 0) {
        expressed.push_back(genes[i]);
        places.push_back(i);
      } else {
        ++known[i];  // counts as 0
      }
    }
    if (expressed.empty()) continue;
    const Numbers normalized =
        normalized_dispersions(dispersions_of(batch, expressed, flavor), flavor);
    const auto is_high = highest(normalized, n_top_genes);
    for (std::size_t j = 0; j < places.size(); ++j) {
      times[places[j]] += is_high[j];
      if (std::isnan(normalized[j])) continue;
      sums[places[j]] += normalized[j];
      ++known[places[j]];
    }
  }
  std::vector<std::size_t> order(genes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto mean = [&](std::size_t i) {
    return known[i] > 0 ? sums[i] / static_cast<double>(known[i]) : kNan;
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (times[a] != times[b]) return times[a] > times[b];
    const double x = mean(a), y = mean(b);
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (x != y && !std::isnan(x)) return x > y;
    return names[genes[a]] < names[genes[b]];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(n_top_genes)));
  std::vector<std::int64_t> chosen;
  for (const std::size_t place : order) chosen.push_back(genes[place]);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

void require_two_cells(const BatchSums& batch) {
  if (batch.n_cells > 1) return;
  if (batch.name.empty()) throw_invalid("highly variable genes need two cells at least, not 1");
  throw_invalid("highly variable genes need two cells of each batch, and '{}' has 1", batch.name);
}

std::vector<std::int64_t> highly_variable_genes(const std::vector<BatchSums>& batches,
                                                const std::vector<std::int64_t>& genes,
                                                const std::vector<std::string>& names,
                                                HvgFlavor flavor, std::int64_t n_top_genes) {
  std::ranges::for_each(batches, require_two_cells);
  if (genes.empty()) return {};
  if (!(batches.size() == 1 && batches[0].name.empty()))
    return join_batches(batches, genes, names, flavor, n_top_genes);
  const auto is_high = highest(
      normalized_dispersions(dispersions_of(batches[0], genes, flavor), flavor), n_top_genes);
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < genes.size(); ++i)
    if (is_high[i]) chosen.push_back(genes[i]);
  return chosen;
}

}  // namespace cellfeed::convert
