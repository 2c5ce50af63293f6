#include "cellfeed/convert/preprocess/preprocessing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/inputs/left_out_matrices.h"
#include "cellfeed/convert/preprocess/highly_variable_genes.h"
#include "cellfeed/convert/preprocess/seurat_v3.h"
#include "cellfeed/convert/target_directory.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

constexpr const char* kCountsLayer = "layers/counts";

// Before the pass over all cells; whoever writes checks again.
void check_output(const ConvertOptions& convert) {
  const std::string& output = convert.output_dir;
  if (is_h5ad_name(output)) {
    if (convert.existing == ExistingTarget::kResume)
      throw_invalid("a single file is written as a whole, so there is nothing to resume: '{}'",
                    output);
    require_usable_output(output, convert.existing == ExistingTarget::kOverwrite);
    return;
  }
  require_name_of_shards(output);
  if (convert.existing == ExistingTarget::kRefuse && io::exists(output) &&
      (!io::is_directory(output) || !io::Directory(output).names().empty()))
    throw_error(ErrorKind::kAlreadyExists, output,
                "exists already; choose another name, or replace it with {}",
                argument("overwrite", "true"));
}

const PreprocessOptions& checked_preprocessing(const PreprocessOptions& options) {
  check_processing(options.processing);
  if (options.convert.output_dir.empty()) throw_invalid("preprocess needs an output: it is empty");
  exec::checked_thread_count(options.convert.threads);
  exec::check_memory_budget(options.convert.memory_budget);
  check_output(options.convert);
  return options;
}

// What the files hold and the result will not; empty: nothing.
std::string left_out(const InputCells& input) {
  const collection::Collection& cells = *input.cells;
  std::vector<std::string> names;
  for (std::size_t m = 1; m < cells.n_matrices(); ++m) names.push_back(cells.matrix_name(m));
  if (!names.empty())
    return fmt::format("the cells were opened with {}, which are left out", fmt::join(names, ", "));
  const format::StoreInfo& info = cells.store(0).info();
  if (info.format == "memory") return "";
  return left_out_matrices(input.all_paths(), info.layer, format::modality_at(info.root));
}

}  // namespace

Preprocessing::Preprocessing(const PreprocessOptions& options)
    : options_(checked_preprocessing(options)),
      pool_(exec::checked_thread_count(options.convert.threads)),
      // All of obs: batch_key is read, and need not be written.
      sources_(options.convert.input, {}),
      cache_(options.convert.input.cells->reserve_cache(options.convert.memory_budget / 4)) {
  if (is_h5ad_name(options.convert.output_dir))
    refuse_own_input(options.convert.output_dir, sources_);
}

void Preprocessing::require_counts_once() const {
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const format::RowStore& store = sources_.store(s);
    const format::Processing before = store.processing();
    refuse_repetition(options_.processing, before, store.info().path);
    const ProcessingOptions& asked = options_.processing;
    if (asked.n_top_genes > 0 && !asked.finds_genes_in_counts() && !asked.log_transform &&
        !before.is_log1p)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("highly variable genes of flavor {} are found in log-transformed "
                              "values: ask for the logarithm too",
                              flavor_name(asked.flavor)),
                  store.info().path);
  }
}

GeneStatistics Preprocessing::gather(const CountLimits* limits) {
  const ConvertOptions& convert = options_.convert;
  if (!sources_.is_by_rows() && !limits)
    sources_.transpose(pool_, {.dir = io::FileTarget(convert.output_dir).directory(),
                               .memory_bytes = convert.memory_budget / 4,
                               .progress = convert.progress,
                               .stop = convert.stop});
  StatisticsOptions statistics;
  const format::Processing before = sources_.store(0).processing();
  statistics.was_log1p = !options_.processing.log_transform && before.is_log1p;
  statistics.keeps_totals = !options_.processing.changes_values();
  statistics.limits = limits;
  statistics.memory_budget = convert.memory_budget;
  statistics.progress = convert.progress;
  statistics.stop = convert.stop;
  return gather_statistics(sources_, options_.processing, pool_, statistics);
}

std::vector<std::int64_t> Preprocessing::variable_genes(const GeneStatistics& statistics,
                                                        const std::vector<std::int64_t>& genes) {
  const ProcessingOptions& processing = options_.processing;
  if (!processing.finds_genes_in_counts())
    return highly_variable_genes(statistics.batches, genes, sources_.genes().names,
                                 processing.flavor, processing.n_top_genes);
  // How large a count may be is known once all were seen.
  const auto expected = expected_variances(statistics.batches, genes);
  const CountLimits limits = count_limits(statistics.batches, expected, genes);
  return seurat_v3_genes(gather(&limits).batches, expected, genes, processing.n_top_genes);
}

// Joined columns that stay, ascending.
std::vector<std::int64_t> Preprocessing::choose_genes(const GeneStatistics& statistics) {
  const ProcessingOptions& processing = options_.processing;
  std::vector<std::int64_t> genes;
  for (std::int64_t gene = 0; gene < sources_.genes().size(); ++gene)
    if (statistics.n_cells_with_gene[gene] >= processing.min_cells) genes.push_back(gene);
  if (genes.empty())
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("no gene is in {} of the cells that stay (min_cells)", processing.min_cells),
        sources_.store(0).info().path);
  if (processing.n_top_genes == 0) return genes;
  const std::int64_t n_genes = std::ssize(genes);
  genes = variable_genes(statistics, genes);
  if (genes.empty())
    throw Error(ErrorKind::kInvalidArgument,
                "no gene is found to vary over the cells that stay: leave out genes that are in "
                "few cells (min_cells), or choose another flavor",
                sources_.store(0).info().path);
  if (std::ssize(genes) < processing.n_top_genes)
    warnings_.push_back(
        fmt::format("{} highly variable genes were asked for, and {} are kept: no more vary of the "
                    "{} genes that there are",
                    processing.n_top_genes, std::ssize(genes), n_genes));
  return genes;
}

ProcessedPart Preprocessing::part_of(std::int64_t source, const KeptCells& kept,
                                     const std::vector<bool>& stays) const {
  const format::RowStore& store = sources_.store(source);
  const matrix::GeneAxis& axis = sources_.source_genes(source);
  const auto map = sources_.gene_map(source);
  ProcessedPart part;
  part.rows = kept.rows[source];
  for (std::int64_t column = 0; column < axis.size(); ++column) {
    const std::int64_t gene = map.empty() ? column : map[column];
    if (gene < 0 || !stays[gene]) continue;
    part.columns.push_back(column);
  }
  part.genes = axis.take(part.columns);
  const bool leaves_out = std::ssize(part.columns) < axis.size();
  if (leaves_out || store.known_library_sizes()) part.totals = kept.totals[source];
  const format::Processing before = store.processing();
  part.recorded =
      format::read_processing(recorded_processing(options_.processing, before), store.info().path);
  return part;
}

std::shared_ptr<const collection::Collection> Preprocessing::processed(
    const ProcessingOptions& processing, const KeptCells& kept) const {
  std::vector<bool> stays(static_cast<std::size_t>(sources_.genes().size()), false);
  collection::CollectionOptions join;
  join.join = collection::Join::kFixed;
  for (const std::int64_t gene : kept.genes) {
    stays[gene] = true;
    join.genes.push_back(sources_.genes().names[gene]);
  }
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s)
    stores.push_back(make_processed_store(sources_.store(s), processing, part_of(s, kept, stays)));
  // A source of which no cell stays has nothing to say.
  std::erase_if(stores, [](const auto& store) { return store->info().n_rows == 0; });
  return std::make_shared<const collection::Collection>(std::move(stores), join);
}

KeptCells Preprocessing::choose() {
  require_counts_once();
  if (std::string text = left_out(options_.convert.input); !text.empty())
    warnings_.push_back(std::move(text));
  GeneStatistics statistics = gather();
  std::vector<std::int64_t> genes = choose_genes(statistics);
  return {std::move(genes), std::move(statistics.kept_rows), std::move(statistics.totals)};
}

void Preprocessing::require_own(const KeptCells& kept) const {
  const auto are_below = [](const std::vector<std::int64_t>& numbers, std::int64_t end) {
    return std::ranges::is_sorted(numbers, std::less_equal()) &&
           (numbers.empty() || (numbers.front() >= 0 && numbers.back() < end));
  };
  const auto n_sources = static_cast<std::size_t>(sources_.n_sources());
  bool is_own = are_below(kept.genes, sources_.genes().size()) && kept.rows.size() == n_sources &&
                kept.totals.size() == n_sources;
  for (std::size_t s = 0; is_own && s < n_sources; ++s) {
    const std::int64_t n_rows = sources_.store(static_cast<std::int64_t>(s)).info().n_rows;
    const auto& rows = kept.rows[s];
    const std::int64_t n_kept = rows ? std::ssize(*rows) : n_rows;
    is_own = (!rows || are_below(*rows, n_rows)) &&
             (kept.totals[s].empty() || std::ssize(kept.totals[s]) == n_kept);
  }
  if (!is_own)
    throw Error(ErrorKind::kCorruptData,
                "the cells and genes that stay are not of these inputs; begin again",
                options_.convert.output_dir);
}

void Preprocessing::describe(PreprocessResult& result) const {
  result.n_cells_before = sources_.n_cells();
  result.n_genes_before = sources_.genes().size();
  result.warnings.insert(result.warnings.end(), warnings_.begin(), warnings_.end());
}

void describe_shards(const ConvertResult& shards, PreprocessResult& result) {
  result.n_cells = shards.n_cells;
  result.n_genes = shards.n_genes;
  result.nnz = shards.nnz;
  result.n_shards = shards.n_shards;
  result.bytes = shards.bytes;
  result.left_out_text = shards.left_out_text;
  result.n_uploads_removed = shards.n_uploads_removed;
  result.warnings.insert(result.warnings.end(), shards.warnings.begin(), shards.warnings.end());
}

ConvertOptions Preprocessing::conversion_of(const KeptCells& kept) const {
  ConvertOptions convert = options_.convert;
  InputCells& input = convert.input;
  input.paths = input.all_paths();
  input.make_unique = false;
  input.keeps_own_names = !input.cells->var_keys().empty();
  input.has_genes_of_files = std::ssize(kept.genes) == sources_.genes().size();
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s)
    input.has_genes_of_files &= sources_.has_joined_axis(s);
  input.cells = processed(options_.processing, kept);
  if (!options_.processing.keeps_counts) return convert;
  ProcessingOptions unchanged = options_.processing;
  unchanged.normalize = unchanged.log_transform = false;
  input.cells = input.cells->with_matrices({{kCountsLayer, processed(unchanged, kept)}});
  return convert;
}

}  // namespace cellfeed::convert
