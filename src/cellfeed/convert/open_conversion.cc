#include "cellfeed/convert/open_conversion.h"

#include <arrow/api.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/convert/append/shard_base.h"
#include "cellfeed/convert/conversion_plan.h"
#include "cellfeed/convert/gene_order.h"
#include "cellfeed/convert/inputs/carried_annotations.h"
#include "cellfeed/convert/inputs/unreadable_columns.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/processing.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

// More cells than there are.
constexpr std::int64_t kMaxShardSize = std::int64_t{1} << 40;
// What a manifest has room for.
constexpr std::int64_t kMaxShards = 40'000;

void check_options(const ConvertOptions& options) {
  if (options.output_dir.empty()) throw_invalid("the shards need a directory: output_dir is empty");
  if (options.shard_size < 1)
    throw_invalid("a shard holds one cell at least: shard_size is {}", options.shard_size);
  exec::checked_thread_count(options.threads);
  exec::check_memory_budget(options.memory_budget);
}

const ConvertOptions& checked_conversion(const ConvertOptions& options) {
  check_options(options);
  return options;
}

// The names of the columns of a table of obsm; empty of other matrices.
std::vector<std::string> columns_of(const MatrixSource& matrix) {
  const std::vector<std::string>& names = matrix.sources->genes().names;
  const bool has_names =
      format::is_obsm(matrix.name) && names != format::column_numbers(std::ssize(names));
  return has_names ? names : std::vector<std::string>();
}

DType dtype_to_write(const ConvertOptions& options, DType stored) {
  if (options.base) return options.base->manifest.value_dtype;
  if (options.layout == shard::Layout::kDense) return DType::kF32;
  return options.widens_integers && can_widen(stored) ? DType::kI64 : stored;
}

KeptTotals kept_totals(const ConvertOptions& options) {
  return options.base && options.base->manifest.keeps_library_sizes ? KeptTotals::kAlways
                                                                    : KeptTotals::kWhereNeeded;
}

// Threads that wait for a server leave the processors to others: where nobody gave a number, there
// are enough to have the files of many requests under way.
int threads_of(const ConvertOptions& options) {
  constexpr int kRemoteAtOnce = 16;
  const int n_threads = exec::checked_thread_count(options.threads);
  return options.threads == 0 && options.input.cells->is_remote()
             ? std::max(n_threads, kRemoteAtOnce)
             : n_threads;
}

PipelineLimits limits_of(std::int64_t memory_budget) { return {memory_budget / 4, 256}; }

SourceOptions sources_for(const ConvertOptions& options) {
  SourceOptions sources{.obs_choice = options.obs};
  if (options.base) {
    sources.obs_before = options.base->obs;
    sources.behind = gene_table(*options.base);
  }
  return sources;
}

}  // namespace

OpenConversion::OpenConversion(const ConvertOptions& options)
    : options_(checked_conversion(options)),
      pool_(threads_of(options)),
      sources_(options.input, sources_for(options)),
      encoder_(sources_, options.layout, dtype_to_write(options, sources_.value_dtype()),
               kept_totals(options)) {
  options_.shard_size = std::min(options_.shard_size, kMaxShardSize);
  cache_ = options.input.cells->reserve_cache(options.memory_budget / 4);
  if (first_shard() + n_shards() > kMaxShards)
    throw_invalid(
        "{} cells in shards of {} are {} shards{}, and a directory holds {} at most: ask for "
        "larger shards",
        sources_.n_cells(), options_.shard_size, n_shards(),
        first_shard() > 0 ? fmt::format(" behind {} that are there", first_shard()) : "",
        kMaxShards);
  if (options_.base) encoder_.set_type_of_shards();
  require_utf8_paths(sources_);
  obs_schema_ = shard::stored_obs_schema(*sources_.obs().schema(), sources_.store(0).info().path);
  open_further();
}

std::int64_t OpenConversion::first_shard() const {
  return options_.base ? options_.base->end_shard() : 0;
}

std::int64_t OpenConversion::first_cell() const {
  return options_.base ? options_.base->manifest.n_cells : 0;
}

std::vector<MatrixSource> OpenConversion::further_sources() const {
  auto matrices = matrices_of(options_.input);
  if (options_.base) require_matrices_of_base(matrices);
  return matrices;
}

// The same, in the same order.
void OpenConversion::require_matrices_of_base(std::vector<MatrixSource>& matrices) const {
  const ShardBase& base = *options_.base;
  std::vector<MatrixSource> in_order;
  for (const shard::MatrixEntry& wanted : base.manifest.matrices) {
    const auto found = std::ranges::find(matrices, wanted.name, &MatrixSource::name);
    if (found == matrices.end())
      throw_error(ErrorKind::kInvalidArgument, base.dir(),
                  "its cells have '{}', and those to append were opened without: open them with "
                  "it ({}, {})",
                  wanted.name, argument("layers"), argument("obsm"));
    const matrix::GeneAxis& columns = found->sources->genes();
    const std::string& path = found->sources->store(0).info().path;
    if (columns.size() != wanted.n_cols)
      throw_error(ErrorKind::kInvalidArgument, path, "'{}' has {} columns, and {} in '{}'",
                  wanted.name, columns.size(), wanted.n_cols, base.dir());
    if (columns_of(*found) != wanted.columns)
      throw_error(ErrorKind::kInvalidArgument, path, "the columns of '{}' have other names in '{}'",
                  wanted.name, base.dir());
    in_order.push_back(std::move(*found));
    matrices.erase(found);
  }
  if (!matrices.empty())
    throw_error(ErrorKind::kInvalidArgument, base.dir(),
                "its cells have no '{}', and those to append were opened with it: open them "
                "without",
                matrices.front().name);
  matrices = std::move(in_order);
}

DType OpenConversion::dtype_of(const MatrixSource& source, std::size_t number) const {
  if (options_.base) return options_.base->manifest.matrices[number].value_dtype;
  return layout_of(source) == shard::Layout::kDense ? DType::kF32 : source.sources->value_dtype();
}

void OpenConversion::open_further() {
  for (MatrixSource& source : further_sources()) {
    const shard::Layout layout = layout_of(source);
    const Sources& of_matrix = *source.sources;
    if (of_matrix.genes().size() > shard::kMaxObsmColumns && format::is_obsm(source.name))
      throw_error(ErrorKind::kUnsupported, of_matrix.store(0).info().path,
                  "'{}' has {} columns, and shards hold arrays of obsm of at most {}", source.name,
                  of_matrix.genes().size(), shard::kMaxObsmColumns);
    const DType dtype = dtype_of(source, further_.size());
    further_.push_back(std::unique_ptr<Further>(
        new Further{std::move(source), CellEncoder(of_matrix, layout, dtype, KeptTotals::kNever)}));
    if (options_.base) further_.back()->encoder.set_type_of_shards();
  }
}

shard::Layout OpenConversion::layout_of(const MatrixSource& source) const {
  return format::is_obsm(source.name) ? shard::Layout::kPacked : options_.layout;
}

std::string OpenConversion::plan() const {
  std::vector<PlannedMatrix> matrices{{"X", sources_, encoder_.value_dtype()}};
  for (const auto& further : further_)
    matrices.push_back(
        {further->source.name, *further->source.sources, further->encoder.value_dtype()});
  return conversion_plan(options_, matrices, *obs_schema_);
}

shard::FileEntry OpenConversion::write_genes(const ShardTarget& target) const {
  auto var = sources_.read_var();
  const matrix::GeneAxis& genes = sources_.genes();
  std::vector<std::int64_t> original = encoder_.gene_order();
  if (original.empty()) {
    original.resize(genes.names.size());
    std::iota(original.begin(), original.end(), std::int64_t{0});
  } else {
    var = matrix::take_rows(*var, original);
  }
  return shard::write_genes(target.dir, var, original, genes.take(original).repeated,
                            target.generation);
}

std::optional<shard::FileEntry> OpenConversion::write_annotations(const ShardTarget& target) {
  if (!options_.carries_annotations) return std::nullopt;
  CarriedAnnotations carried(options_.input, sources_, false);
  auto written = carried.write_to(target.dir, target.generation);
  left_out_text_ = carried.left_out_text();
  return written;
}

shard::Manifest OpenConversion::make_manifest() const {
  shard::Manifest manifest = options_.base ? options_.base->manifest : describe();
  if (options_.base) {
    manifest.annotations.reset();  // of the one source there was
    if (sources_.processing_json() != manifest.processing_json) {
      const format::Processing both[] = {
          format::read_processing(manifest.processing_json, options_.base->dir()),
          format::read_processing(sources_.processing_json(), options_.base->dir())};
      manifest.processing_json = format::join_processing(both).json;
    }
    manifest.shard_size = std::max(manifest.shard_size, options_.shard_size);
    manifest.appends.push_back({.first_cell = first_cell(),
                                .n_sources = sources_.n_sources(),
                                .is_shuffled = options_.shuffle,
                                .selection_json = options_.input.selection_json});
  }
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const auto& store = sources_.store(s);
    auto& source = manifest.sources.emplace_back(shard::SourceEntry{
        store.info().path, store.info().layer, store.fingerprint(), store.info().n_rows});
    if (store.info().selected) source.whole_fingerprint = store.whole_fingerprint();
  }
  return manifest;
}

// But for the sources.
shard::Manifest OpenConversion::describe() const {
  shard::Manifest manifest;
  manifest.layout = options_.layout;
  manifest.n_genes = sources_.genes().size();
  manifest.value_dtype = encoder_.value_dtype();
  manifest.gene_order = options_.gene_order;
  manifest.keeps_library_sizes = encoder_.keeps_library_sizes();
  manifest.gene_fingerprint = shard::gene_fingerprint(encoder_.gene_names());
  manifest.processing_json = sources_.processing_json();
  manifest.selection_json = options_.input.selection_json;
  manifest.shard_size = options_.shard_size;
  for (const auto& further : further_)
    manifest.matrices.push_back({.name = further->source.name,
                                 .layout = further->encoder.layout(),
                                 .n_cols = further->source.sources->genes().size(),
                                 .value_dtype = further->encoder.value_dtype(),
                                 .columns = columns_of(further->source)});
  return manifest;
}

shard::ShardSpec OpenConversion::shard_spec(const ShardTarget& target) const {
  shard::ShardSpec spec;
  spec.dir = target.dir;
  spec.generation = target.generation;
  spec.layout = options_.layout;
  spec.cells.n_genes = sources_.genes().size();
  spec.cells.value_dtype = encoder_.value_dtype();
  spec.cells.gene_order = options_.gene_order;
  spec.obs_schema = obs_schema_;
  spec.cells.shard = first_shard();
  spec.first_cell = first_cell();
  spec.keeps_library_sizes = encoder_.keeps_library_sizes();
  spec.has_own_library_sizes = options_.base && !options_.base->manifest.keeps_library_sizes &&
                               encoder_.keeps_library_sizes();
  for (const auto& further : further_)
    spec.matrices.push_back({.layout = further->encoder.layout(),
                             .n_cols = further->source.sources->genes().size(),
                             .value_dtype = further->encoder.value_dtype(),
                             .gene_order = format::is_obsm(further->source.name)
                                               ? shard::GeneOrder::kSource
                                               : options_.gene_order});
  return spec;
}

double OpenConversion::write_shards(const ShardTarget& target, const WantedShards& wanted) {
  const std::int64_t budget = options_.memory_budget / wanted.n_callers;
  const auto n_matrices = 1 + std::ssize(further_);
  std::deque<PassedPages> pages;
  std::vector<MatrixPass> matrices;
  const auto add = [&](const Sources& sources, CellEncoder& encoder) {
    auto& passed = pages.emplace_back(sources, budget / 8 / n_matrices);
    matrices.push_back({sources, encoder, passed});
  };
  add(sources_, encoder_);
  for (const auto& further : further_) add(*further->source.sources, further->encoder);
  const ShardPass pass{.matrices = std::move(matrices),
                       .pool = pool_,
                       .spec = shard_spec(target),
                       .shard_size = options_.shard_size,
                       .is_wanted = wanted.is_wanted,
                       .finished = wanted.finished,
                       .memory_bytes = budget / 4,
                       .limits = limits_of(budget),
                       .progress = wanted.progress,
                       .stop = wanted.stop};
  return options_.shuffle ? write_shuffled(pass, options_.seed) : write_in_order(pass);
}

ConvertResult OpenConversion::result_of(const shard::Manifest& manifest) const {
  ConvertResult result;
  result.n_cells = manifest.n_cells;
  result.n_genes = manifest.n_genes;
  result.nnz = manifest.nnz;
  result.n_shards = std::ssize(manifest.shards);
  result.n_absent_genes = std::ssize(sources_.absent_genes());
  result.left_out_text = unreadable_text(sources_);
  add_sentence(result.left_out_text, left_out_text_);
  result.n_genes_left_out = encoder_.n_genes_left_out();
  for (const auto* file : common_files(manifest)) result.bytes += file->bytes;
  for (const auto& entry : manifest.shards) {
    result.bytes += shard::bytes_of(entry);
    result.not_finite += entry.not_finite;
    for (const shard::ShardMatrix& matrix : entry.matrices) result.not_finite += matrix.not_finite;
  }
  return result;
}

std::vector<const Sources*> OpenConversion::sources_by_columns() const {
  std::vector<const Sources*> by_columns;
  if (!sources_.is_by_rows()) by_columns.push_back(&sources_);
  for (const auto& further : further_)
    if (!further->source.sources->is_by_rows()) by_columns.push_back(further->source.sources.get());
  return by_columns;
}

void OpenConversion::transpose_columns(const io::Directory& dir) {
  const auto by_columns = sources_by_columns();
  for (const Sources* sources : by_columns)
    sources->transpose(pool_, {.dir = dir,
                               .memory_bytes = options_.memory_budget / 4 / std::ssize(by_columns),
                               .progress = options_.progress,
                               .stop = options_.stop});
}

void OpenConversion::order_genes() {
  if (options_.gene_order == shard::GeneOrder::kMean && !options_.base)
    set_gene_order(genes_by_mean(sources_, pool_, limits_of(options_.memory_budget),
                                 options_.progress, options_.stop));
}

// That of the first matrix; layers have it too.
void OpenConversion::set_gene_order(const std::vector<std::int64_t>& order) {
  if (order.empty()) return;
  encoder_.set_gene_order(order);
  for (const auto& further : further_)
    if (!format::is_obsm(further->source.name)) further->encoder.set_gene_order(order);
}

}  // namespace cellfeed::convert
