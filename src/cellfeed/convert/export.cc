#include "cellfeed/convert/export.h"

#include <arrow/api.h>

#include <numeric>
#include <optional>
#include <variant>

#include "cellfeed/collection/paths.h"
#include "cellfeed/convert/arrow_result.h"
#include "cellfeed/convert/cell_tasks.h"
#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/library_sizes.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/row_reader.h"
#include "cellfeed/convert/sources.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/obs_schema.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/format/shard/shard_store.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
struct Rows {
  PiecePool::Lease piece;
  std::vector<double> sizes;  // LibrarySizes::of them
};
using TaskResult = std::variant<Rows, std::shared_ptr<arrow::Table>>;

// Joined column of each exported one, where shards in mean order give the source's order back;
// empty: as joined.
std::vector<std::int64_t> source_gene_order(const ExportOptions& options, const Sources& sources) {
  if (options.keep_stored_gene_order || !options.join.empty()) return {};
  const std::string first = collection::expand_paths(options.inputs).front();
  if (!shard::is_shard_dir(first)) return {};
  const shard::ShardDirectory directory(first, {.reads_genes = false});
  if (directory.manifest().gene_order != shard::GeneOrder::kMean) return {};
  const auto original = shard::read_genes(directory).original_position;
  std::vector<std::int64_t> order(original.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return original[a] < original[b]; });
  if (std::ssize(order) != sources.genes().size())
    throw Error(ErrorKind::kCorruptData, "lists original positions for another number of genes",
                first);
  return order;
}

// Column of each source -> exported column; empty where they are the same.
std::vector<std::vector<std::int32_t>> column_maps(const Sources& sources,
                                                   const std::vector<std::int64_t>& order) {
  std::vector<std::int32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::int32_t>(i);
  std::vector<std::vector<std::int32_t>> maps(sources.n_sources());
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const auto map = sources.gene_map(s);
    maps[s].assign(map.begin(), map.end());
    if (rank.empty()) continue;
    if (map.empty())
      maps[s] = rank;
    else
      for (std::int32_t& column : maps[s])
        if (column >= 0) column = rank[column];
  }
  return maps;
}

SourceOptions source_options(const ExportOptions& options) {
  SourceOptions source;
  source.paths = options.inputs;
  source.layer = options.layer;
  source.genome = options.genome;
  source.feature_type = options.feature_type;
  source.allow_external = options.allow_external;
  source.join = options.join;
  source.make_unique = options.make_unique;
  source.cache_bytes = options.memory_budget / 4;
  return source;
}

}  // namespace

ExportResult export_h5ad(const ExportOptions& options) {
  if (options.output.empty()) throw_invalid("an export needs a file to write: output is empty");
  exec::checked_thread_count(options.threads);
  exec::check_memory_budget(options.memory_budget);
  if (!options.overwrite) refuse_existing_file(options.output);
  Sources sources = Sources::open(source_options(options));
  const LibrarySizes library_sizes(sources);
  const auto order = source_gene_order(options, sources);
  const auto maps = column_maps(sources, order);
  std::vector<std::string> dropped;
  if (!options.keep_source_columns) dropped = {shard::kSourceFileColumn, shard::kSourceRowColumn};

  format::h5ad::H5adWriterOptions writer_options;
  writer_options.value_dtype = sources.value_dtype();
  writer_options.compression = options.compression;
  H5adOutput output(options.output, sources.genes().size(), writer_options, options.overwrite);
  const PipelineLimits limits{options.memory_budget / 4, 64};
  const auto tasks = make_cell_tasks(sources, 0, sources.n_cells());
  exec::ThreadPool pool(exec::checked_thread_count(options.threads));
  if (!sources.is_by_rows())
    sources.transpose(pool, {.dir = io::FileTarget(options.output).directory(),
                             .memory_bytes = options.memory_budget / 4,
                             .progress = options.progress,
                             .stop = options.stop});
  PiecePool pieces;
  PassedPages pages(sources, options.memory_budget / 8);
  ProgressMeter meter(options.progress, "exporting", sources.n_cells());
  run_in_order<TaskResult>(
      pool, std::ssize(tasks), limits,
      [&](std::int64_t i) {
        const SourceRange& range = tasks[i].range;
        return tasks[i].is_obs ? plan_obs_bytes(sources, range) : sources.plan_bytes(range);
      },
      [&](std::int64_t i) -> TaskResult {
        const SourceRange& range = tasks[i].range;
        if (tasks[i].is_obs) return drop_columns(*sources.read_obs(range), dropped);
        auto piece = pieces.acquire();
        std::vector<std::int64_t> rows(static_cast<std::size_t>(range.n_cells()));
        std::iota(rows.begin(), rows.end(), range.begin);
        read_rows(sources.store(range.source), rows, *piece);
        auto sizes = library_sizes.of(range.source, rows, *piece);
        if (!maps[range.source].empty())
          renumber_columns(*piece, maps[range.source], sources.genes().size());
        return Rows{std::move(piece), std::move(sizes)};
      },
      [&](std::int64_t i, TaskResult&& result) {
        if (const auto* obs = std::get_if<std::shared_ptr<arrow::Table>>(&result)) {
          output.append_obs(**obs);
          return;
        }
        const Rows& rows = std::get<Rows>(result);
        output.append(*rows.piece);
        if (library_sizes.are_kept()) output.append_library_sizes(rows.sizes);
        pages.passed(tasks[i].range);
        meter.advance(tasks[i].range.n_cells());
      },
      options.stop);

  auto var = drop_columns(*sources.read_var(), {shard::kOriginalPositionColumn});
  if (!order.empty()) var = take_rows(*var, order);
  ExportResult result;
  result.nnz = output.nnz_written();
  result.bytes = output.finish(*var);
  result.n_cells = sources.n_cells();
  result.n_genes = sources.genes().size();
  result.seconds = meter.seconds();
  result.cells_per_second = meter.rate();
  result.left_out_text = sources.left_out_text();
  return result;
}

}  // namespace cellfeed::convert
