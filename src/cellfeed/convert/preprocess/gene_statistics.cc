#include "cellfeed/convert/preprocess/gene_statistics.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/counts.h"
#include "cellfeed/convert/inputs/library_sizes.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/preprocess/batch_labels.h"

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kStatisticsPieceBytes = 16 << 20;
constexpr std::int64_t kStatisticsPieceCells = 32768;

struct PieceSums {
  std::vector<std::int64_t> kept;  // rows of the source
  std::vector<double> totals;      // of those
  std::vector<std::int64_t> n_cells_with_gene;
  std::map<std::int64_t, BatchSums> batches;
};

bool has_prefix(const std::string& name, const std::string& prefix) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return name.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), name.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

class StatisticsPass {
 public:
  StatisticsPass(const Sources& sources, const ProcessingOptions& processing,
                 const StatisticsOptions& options)
      : sources_(sources),
        processing_(processing),
        options_(options),
        n_genes_(static_cast<std::size_t>(sources.genes().size())),
        labels_(sources, processing.batch_key) {
    for (std::int64_t s = 0; s < sources.n_sources(); ++s)
      known_totals_.push_back(sources.store(s).known_library_sizes());
    if (processing.max_mito_share < 1) find_mito_genes();
  }

  PieceSums read(const SourceRange& range);
  void add(const SourceRange& range, PieceSums&& piece);
  GeneStatistics finish();
  std::int64_t scratch_bytes() const {
    return static_cast<std::int64_t>(n_genes_ * sizeof(double)) *
           (processing_.n_top_genes > 0 ? 3 : 1);
  }
  void prepare();

 private:
  void find_mito_genes();
  template <typename T>
  void add_row(const SourceRange& range, std::int64_t row, std::span<const std::int32_t> columns,
               std::span<const T> values, PieceSums& out);
  template <typename T>
  void check_values(const SourceRange& range, std::int64_t row,
                    std::span<const std::int32_t> columns, std::span<const T> values) const;
  std::string where_counts_are(const SourceRange& range) const;
  [[noreturn]] void refuse(const SourceRange& range, std::int64_t row, std::int32_t column,
                           double value, const std::string& what) const;
  template <typename T>
  bool passes(std::int64_t source, std::span<const std::int32_t> columns,
              std::span<const T> values) const;

  const Sources& sources_;
  const ProcessingOptions& processing_;
  const StatisticsOptions& options_;
  std::size_t n_genes_;
  BatchLabels labels_;
  std::vector<std::optional<matrix::FixedColumn>> known_totals_;
  std::vector<const std::vector<double>*> limits_;  // of each batch, where there are any
  std::vector<std::vector<bool>> is_mito_;          // of each source, its columns
  PiecePool pieces_;
  GeneStatistics result_;
};

void StatisticsPass::find_mito_genes() {
  bool has_any = false;
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    auto& is_mito = is_mito_.emplace_back();
    for (const std::string& name : sources_.source_genes(s).names) {
      is_mito.push_back(has_prefix(name, processing_.mito_prefix));
      has_any |= is_mito.back();
    }
  }
  if (!has_any)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("no gene's name begins with '{}', so the mitochondrial share of a cell "
                            "is not known; name the prefix, or leave the filter out",
                            processing_.mito_prefix),
                sources_.store(0).info().path);
}

void StatisticsPass::refuse(const SourceRange& range, std::int64_t row, std::int32_t column,
                            double value, const std::string& what) const {
  const format::RowStore& store = sources_.store(range.source);
  throw_error(ErrorKind::kInvalidArgument, store.info().path, "cell {}, gene '{}' holds {}: {}",
              row, sources_.source_genes(range.source).names[column], value, what);
}

std::string StatisticsPass::where_counts_are(const SourceRange& range) const {
  constexpr std::int64_t kCellsOfLook = 100;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(range.n_cells(), kCellsOfLook)));
  std::iota(rows.begin(), rows.end(), range.begin);
  return collection::where_counts_are(sources_.store(range.source), rows);
}

template <typename T>
void StatisticsPass::check_values(const SourceRange& range, std::int64_t row,
                                  std::span<const std::int32_t> columns,
                                  std::span<const T> values) const {
  const bool wants_counts = processing_.needs_counts();
  bool is_bad = false;
  for (const T value : values) {
    if constexpr (std::is_floating_point_v<T>)
      is_bad |= !(value >= 0 && value <= std::numeric_limits<T>::max()) ||
                (wants_counts && value != std::trunc(value));
    else
      is_bad |= value < T{};
  }
  if (!is_bad) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value))
      refuse(range, row, columns[i], value, "values must be finite; mend or leave out that cell");
    if (value < 0)
      refuse(range, row, columns[i], value,
             "a negative value is no count, and has no logarithm; start from the raw counts");
    if (wants_counts && value != std::trunc(value))
      refuse(range, row, columns[i], value,
             fmt::format("a fraction is no count, so the data looks normalised or log-transformed "
                         "already: {}, or force it where fractions are counts",
                         where_counts_are(range)));
  }
}

template <typename T>
bool StatisticsPass::passes(std::int64_t source, std::span<const std::int32_t> columns,
                            std::span<const T> values) const {
  if (!processing_.filters_cells()) return true;
  std::int64_t n_genes = 0;
  double total = 0, mito = 0;
  const bool counts_mito = processing_.max_mito_share < 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    n_genes += values[i] > T{};
    total += static_cast<double>(values[i]);
    if (counts_mito && is_mito_[source][columns[i]]) mito += static_cast<double>(values[i]);
  }
  if (n_genes < processing_.min_genes) return false;
  return !counts_mito || mito <= processing_.max_mito_share * total;
}

// What highly variable genes are found in: seurat's are counts per target_sum, cell_ranger's their
// logarithms; seurat_v3's are the counts.
struct HvgValue {
  double factor = 1;
  bool is_log_input = false;
  bool is_log = false;
  double operator()(double value) const {
    if (is_log_input) return is_log ? value : std::expm1(value);
    return is_log ? std::log1p(value * factor) : value * factor;
  }
};

template <typename T>
void StatisticsPass::add_row(const SourceRange& range, std::int64_t row,
                             std::span<const std::int32_t> columns, std::span<const T> values,
                             PieceSums& out) {
  check_values(range, row, columns, values);
  if (!passes(range.source, columns, values)) return;
  double total = 0;
  for (const T value : values) total += static_cast<double>(value);
  if (const auto& known = known_totals_[range.source])
    total = static_cast<const double*>(known->values)[row];
  if (processing_.filters_cells()) out.kept.push_back(row);
  if (options_.keeps_totals) out.totals.push_back(total);
  const auto map = sources_.gene_map(range.source);
  const auto gene_of = [&](std::int32_t column) { return map.empty() ? column : map[column]; };
  if (processing_.n_top_genes == 0) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (const std::int32_t gene = gene_of(columns[i]); gene >= 0)
        out.n_cells_with_gene[gene] += values[i] > T{};
    return;
  }
  const std::int64_t label = labels_.of(range.source, row);
  BatchSums& batch = out.batches[label];
  if (batch.sums.empty()) {
    batch.sums.assign(n_genes_, 0);
    batch.squares.assign(n_genes_, 0);
  }
  ++batch.n_cells;
  if (processing_.finds_genes_in_counts()) {
    const double* limits = limits_.empty() ? nullptr : limits_[label]->data();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int32_t gene = gene_of(columns[i]);
      if (gene < 0) continue;
      auto value = static_cast<double>(values[i]);
      out.n_cells_with_gene[gene] += value > 0;
      if (limits) value = std::min(value, limits[gene]);
      batch.sums[gene] += value;
      batch.squares[gene] += value * value;
    }
    return;
  }
  const HvgValue hvg_value{
      .factor = processing_.normalize && total > 0 ? processing_.target_sum / total : 1,
      .is_log_input = options_.was_log1p,
      .is_log = processing_.flavor == HvgFlavor::kCellRanger};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int32_t gene = gene_of(columns[i]);
    if (gene < 0) continue;
    const double value = hvg_value(static_cast<double>(values[i]));
    out.n_cells_with_gene[gene] += values[i] > T{};
    batch.sums[gene] += value;
    batch.squares[gene] += value * value;
  }
}

PieceSums StatisticsPass::read(const SourceRange& range) {
  const auto piece = pieces_.acquire();
  read_rows(sources_.store(range.source), range.begin, range.end, *piece);
  PieceSums out;
  out.n_cells_with_gene.assign(n_genes_, 0);
  dispatch_dtype(piece->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* values = reinterpret_cast<const T*>(piece->values.data());
    for (std::int64_t i = 0; i < piece->n_rows(); ++i) {
      const std::int64_t at = piece->indptr[i];
      const auto n = static_cast<std::size_t>(piece->indptr[i + 1] - at);
      add_row<T>(range, range.begin + i, {piece->indices.data() + at, n}, {values + at, n}, out);
    }
  });
  if (!processing_.filters_cells()) out.kept.clear();
  return out;
}

void StatisticsPass::prepare() {
  const auto n_sources = static_cast<std::size_t>(sources_.n_sources());
  result_.kept_rows.resize(n_sources);
  if (processing_.filters_cells())
    for (auto& rows : result_.kept_rows) rows.emplace();
  result_.totals.resize(n_sources);
  result_.n_cells_with_gene.assign(n_genes_, 0);
  if (processing_.n_top_genes == 0) return;
  const std::int64_t bytes = labels_.n_batches() * (processing_.finds_genes_in_counts() ? 5 : 2) *
                             static_cast<std::int64_t>(n_genes_ * sizeof(double));
  if (bytes > options_.memory_budget)
    throw_invalid(
        "sums of {} genes in {} batches take {} bytes, more than the memory budget: "
        "raise it, or choose another batch_key",
        n_genes_, labels_.n_batches(), bytes);
  for (const std::string& name : labels_.names()) {
    if (options_.limits) {
      const auto found = options_.limits->find(name);
      limits_.push_back(found == options_.limits->end() ? nullptr : &found->second);
    }
    result_.batches.push_back(
        {name, 0, std::vector<double>(n_genes_, 0), std::vector<double>(n_genes_, 0)});
  }
}

void StatisticsPass::add(const SourceRange& range, PieceSums&& piece) {
  auto& kept = result_.kept_rows[range.source];
  if (kept) kept->insert(kept->end(), piece.kept.begin(), piece.kept.end());
  result_.n_cells += kept ? std::ssize(piece.kept) : range.n_cells();
  auto& totals = result_.totals[range.source];
  totals.insert(totals.end(), piece.totals.begin(), piece.totals.end());
  for (std::size_t g = 0; g < n_genes_; ++g)
    result_.n_cells_with_gene[g] += piece.n_cells_with_gene[g];
  for (const auto& [number, sums] : piece.batches) {
    BatchSums& batch = result_.batches[number];
    batch.n_cells += sums.n_cells;
    for (std::size_t g = 0; g < n_genes_; ++g) {
      batch.sums[g] += sums.sums[g];
      batch.squares[g] += sums.squares[g];
    }
  }
}

GeneStatistics StatisticsPass::finish() {
  if (result_.n_cells == 0)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("no cell of {} passes the filters (at least {} genes, a mitochondrial "
                            "share of at most {})",
                            sources_.n_cells(), processing_.min_genes, processing_.max_mito_share),
                sources_.store(0).info().path);
  std::erase_if(result_.batches, [](const BatchSums& batch) { return batch.n_cells == 0; });
  return std::move(result_);
}

}  // namespace

GeneStatistics gather_statistics(const Sources& sources, const ProcessingOptions& processing,
                                 exec::ThreadPool& pool, const StatisticsOptions& options) {
  StatisticsPass pass(sources, processing, options);
  pass.prepare();
  const auto pieces =
      sources.split(0, sources.n_cells(), kStatisticsPieceCells, kStatisticsPieceBytes);
  PassedPages pages(sources, options.memory_budget / 8);
  ProgressMeter meter(options.progress, "looking at genes", sources.n_cells());
  run_in_order<PieceSums>(
      pool, std::ssize(pieces), {options.memory_budget / 4, 256},
      [&](std::int64_t i) { return sources.plan_bytes(pieces[i]) + pass.scratch_bytes(); },
      [&](std::int64_t i) { return pass.read(pieces[i]); },
      [&](std::int64_t i, PieceSums&& piece) {
        pass.add(pieces[i], std::move(piece));
        pages.passed(pieces[i]);
        meter.advance(pieces[i].n_cells());
      },
      options.stop);
  return pass.finish();
}

}  // namespace cellfeed::convert
