#include "cellfeed/convert/export.h"

#include <arrow/api.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <variant>

#include "cellfeed/convert/cell_tasks.h"
#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/inputs/carried_annotations.h"
#include "cellfeed/convert/inputs/library_sizes.h"
#include "cellfeed/convert/inputs/matrix_sources.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/inputs/unreadable_columns.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
struct Rows {
  PiecePool::Lease piece;
  std::vector<double> sizes;  // LibrarySizes::of them
};
using ExportedPart = std::variant<Rows, std::shared_ptr<arrow::Table>>;

// Column of the cells that each exported one is, where shards in mean order give the source's order
// back; empty: the same.
std::vector<std::int64_t> source_gene_order(const ExportOptions& options, const Sources& sources) {
  if (options.keep_stored_gene_order || !sources.has_joined_axis(0)) return {};
  const format::StoreInfo& first = sources.store(0).info();
  if (first.format != "shard") return {};
  const std::string dir = first.path.substr(0, first.path.rfind('/'));
  const shard::ShardDirectory directory(dir, {.reads_genes = false});
  if (directory.manifest().gene_order != shard::GeneOrder::kMean) return {};
  const auto original = shard::read_genes(directory).original_position;
  std::vector<std::int64_t> order(original.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return original[a] < original[b]; });
  if (std::ssize(order) != sources.genes().size())
    throw Error(ErrorKind::kCorruptData, "lists original positions for another number of genes",
                dir);
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

SourceOptions sources_of_export(const ExportOptions& options) {
  return {.origins = options.keep_source_columns ? Origins::kAll : Origins::kNone,
          .obs_choice = options.obs};
}

// A matrix as it is exported. Lifetime: the sources outlive it.
struct ExportedMatrix {
  std::string name;
  const Sources& sources;
  // Column of each source -> exported column; empty where they are the same.
  std::vector<std::vector<std::int32_t>> column_maps;
};

class Export {
 public:
  explicit Export(const ExportOptions& options);
  ExportResult run();

 private:
  void transpose_columns();
  format::h5ad::H5adWriterOptions writer_options() const;
  std::vector<CellTask> make_tasks() const;
  ExportedPart read(const CellTask& task);
  void write_cells(H5adOutput& output, ProgressMeter& meter);
  std::string carry_annotations(H5adOutput& output) const;

  const ExportOptions& options_;
  exec::ThreadPool pool_;
  Sources sources_;
  const LibrarySizes library_sizes_;
  const std::vector<std::int64_t> gene_order_;
  std::vector<MatrixSource> further_;
  std::vector<ExportedMatrix> matrices_;  // X first
  PiecePool pieces_;
  std::shared_ptr<const collection::CacheShare> cache_;  // of options_.input
};

Export::Export(const ExportOptions& options)
    : options_(options),
      pool_(exec::checked_thread_count(options.threads)),
      sources_(options.input, sources_of_export(options)),
      library_sizes_(sources_),
      gene_order_(source_gene_order(options, sources_)) {
  refuse_own_input(options.output, sources_);
  further_ = matrices_of(options.input);
  cache_ = options.input.cells->reserve_cache(options.memory_budget / 4);
  matrices_.push_back({"X", sources_, column_maps(sources_, gene_order_)});
  for (const MatrixSource& matrix : further_) {
    const bool is_obsm = format::is_obsm(matrix.name);
    matrices_.push_back(
        {matrix.name, *matrix.sources,
         column_maps(*matrix.sources, is_obsm ? std::vector<std::int64_t>() : gene_order_)});
  }
}

void Export::transpose_columns() {
  std::vector<const Sources*> by_columns;
  if (!sources_.is_by_rows()) by_columns.push_back(&sources_);
  for (const MatrixSource& matrix : further_)
    if (!matrix.sources->is_by_rows()) by_columns.push_back(matrix.sources.get());
  for (const Sources* sources : by_columns)
    sources->transpose(pool_, {.dir = io::FileTarget(options_.output).directory(),
                               .memory_bytes = options_.memory_budget / 4 / std::ssize(by_columns),
                               .progress = options_.progress,
                               .stop = options_.stop});
}

format::h5ad::H5adWriterOptions Export::writer_options() const {
  format::h5ad::H5adWriterOptions options;
  options.value_dtype = sources_.value_dtype();
  options.compression = options_.compression;
  options.processing_json = sources_.processing_json();
  for (const MatrixSource& matrix : further_)
    options.matrices.push_back(
        {matrix.name, matrix.sources->genes().size(), matrix.sources->value_dtype()});
  return options;
}

std::vector<CellTask> Export::make_tasks() const {
  std::vector<const Sources*> sources;
  for (const ExportedMatrix& matrix : matrices_) sources.push_back(&matrix.sources);
  const std::vector<CellTaskSizes> sizes(sources.size());
  return make_cell_tasks(sources, 0, sources_.n_cells(), sizes);
}

ExportedPart Export::read(const CellTask& task) {
  const SourceRange& range = task.range;
  if (task.is_obs) return sources_.read_obs(range);
  const ExportedMatrix& matrix = matrices_[task.matrix];
  auto piece = pieces_.acquire();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(range.n_cells()));
  std::iota(rows.begin(), rows.end(), range.begin);
  read_rows(matrix.sources.store(range.source), rows, *piece);
  std::vector<double> sizes;
  if (task.matrix == 0) sizes = library_sizes_.of(range.source, rows, *piece);
  if (const auto& map = matrix.column_maps[range.source]; !map.empty())
    renumber_columns(*piece, map, matrix.sources.genes().size());
  return Rows{std::move(piece), std::move(sizes)};
}

void Export::write_cells(H5adOutput& output, ProgressMeter& meter) {
  const auto tasks = make_tasks();
  const auto n_matrices = std::ssize(matrices_);
  std::deque<PassedPages> pages;
  for (const ExportedMatrix& matrix : matrices_)
    pages.emplace_back(matrix.sources, options_.memory_budget / 8 / n_matrices);
  run_in_order<ExportedPart>(
      pool_, std::ssize(tasks), PipelineLimits{options_.memory_budget / 4, 64},
      [&](std::int64_t i) {
        const CellTask& task = tasks[i];
        return task.is_obs ? plan_obs_bytes(sources_, task.range)
                           : matrices_[task.matrix].sources.plan_bytes(task.range);
      },
      [&](std::int64_t i) { return read(tasks[i]); },
      [&](std::int64_t i, ExportedPart&& result) {
        if (const auto* obs = std::get_if<std::shared_ptr<arrow::Table>>(&result)) {
          output.append_obs(**obs);
          return;
        }
        const CellTask& task = tasks[i];
        const Rows& rows = std::get<Rows>(result);
        output.append(*rows.piece, task.matrix);
        if (task.matrix == 0 && library_sizes_.are_kept()) output.append_library_sizes(rows.sizes);
        pages[task.matrix].passed(task.range);
        if (task.matrix + 1 == matrices_.size()) meter.advance(task.range.n_cells());
      },
      options_.stop);
}

// Returns what to say of those that are not.
std::string Export::carry_annotations(H5adOutput& output) const {
  CarriedAnnotations carried(options_.input, sources_, !gene_order_.empty());
  carried.write_to(output);
  return carried.left_out_text();
}

ExportResult Export::run() {
  H5adOutput output(options_.output, sources_.genes().size(), writer_options(), options_.overwrite);
  transpose_columns();
  ProgressMeter meter(options_.progress, "exporting", sources_.n_cells());
  write_cells(output, meter);
  auto var = drop_columns(*sources_.read_var(), {shard::kOriginalPositionColumn});
  if (!gene_order_.empty()) var = matrix::take_rows(*var, gene_order_);
  ExportResult result;
  result.left_out_text = unreadable_text(sources_);
  add_sentence(result.left_out_text, carry_annotations(output));
  result.nnz = output.nnz_written();
  result.bytes = output.finish(*var);
  result.n_cells = sources_.n_cells();
  result.n_genes = sources_.genes().size();
  result.seconds = meter.seconds();
  result.cells_per_second = meter.rate();
  return result;
}

}  // namespace

ExportResult export_h5ad(const ExportOptions& options) {
  if (options.output.empty()) throw_invalid("an export needs a file to write: output is empty");
  exec::checked_thread_count(options.threads);
  exec::check_memory_budget(options.memory_budget);
  require_usable_output(options.output, options.overwrite);
  return Export(options).run();
}

}  // namespace cellfeed::convert
