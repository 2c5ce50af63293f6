#include "cellfeed/convert/shard_conversion.h"

#include <arrow/api.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "cellfeed/convert/carried_annotations.h"
#include "cellfeed/convert/cell_encoder.h"
#include "cellfeed/convert/conversion_plan.h"
#include "cellfeed/convert/gene_order.h"
#include "cellfeed/convert/matrix_sources.h"
#include "cellfeed/convert/shard_passes.h"
#include "cellfeed/convert/sources.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/obs_schema.h"
#include "cellfeed/format/shard/verify.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

class Conversion {
 public:
  explicit Conversion(const ConvertOptions& options);
  ConvertResult run();

 private:
  // A matrix beside the first.
  struct Further {
    MatrixSource source;
    CellEncoder encoder;
  };
  Sources open_sources();
  std::string plan() const;
  void open_further();
  shard::Layout layout_of(const MatrixSource& source) const {
    return format::is_obsm(source.name) ? shard::Layout::kPacked : options_.layout;
  }
  void transpose_columns();
  void order_genes();
  shard::ResumeOptions resume_options();
  shard::Manifest make_manifest(shard::FileEntry genes) const;
  shard::FileEntry write_genes() const;
  std::optional<shard::FileEntry> write_annotations();
  double write_shards(shard::PartialManifest& journal);
  shard::ShardSpec shard_spec() const;
  void require_same_conversion(const shard::Manifest& manifest) const;
  void require_whole();
  void require_shards_of_plan(const shard::PartialManifest& journal) const;
  ConvertResult result_of(const shard::Manifest& manifest, std::int64_t resumed) const;
  std::int64_t n_shards() const {
    return (sources_.n_cells() + options_.shard_size - 1) / options_.shard_size;
  }
  std::int64_t shard_begin(std::int64_t shard) const { return shard * options_.shard_size; }
  std::int64_t shard_end(std::int64_t shard) const {
    return std::min(sources_.n_cells(), (shard + 1) * options_.shard_size);
  }

  ConvertOptions options_;
  io::Directory target_;  // from run() on
  shard::Generation generation_ = 0;
  bool is_rewritten_ = false;
  PipelineLimits limits_;
  exec::ThreadPool pool_;
  SourceOptions from_;  // of the inputs, where these are read
  std::string selection_json_ = "{}";
  std::vector<std::string> filter_warnings_;
  std::string left_out_text_;
  Sources sources_;
  CellEncoder encoder_;
  std::vector<std::unique_ptr<Further>> further_;
  std::shared_ptr<arrow::Schema> obs_schema_;
  std::shared_ptr<const collection::CacheShare> cache_;  // of options_.cells
};

// More cells than there are.
constexpr std::int64_t kMaxShardSize = std::int64_t{1} << 40;
// What a manifest has room for.
constexpr std::int64_t kMaxShards = 40'000;

void check_options(const ConvertOptions& options) {
  if (options.inputs.empty()) throw_invalid("there is nothing to convert: no input was given");
  if (options.output_dir.empty()) throw_invalid("the shards need a directory: output_dir is empty");
  if (options.shard_size < 1)
    throw_invalid("a shard holds one cell at least: shard_size is {}", options.shard_size);
  exec::checked_thread_count(options.threads);
  exec::check_memory_budget(options.memory_budget);
}

const ConvertOptions& checked(const ConvertOptions& options) {
  check_options(options);
  return options;
}

DType dtype_to_write(const ConvertOptions& options, DType stored) {
  if (options.layout == shard::Layout::kDense) return DType::kF32;
  return options.widens_integers && can_widen(stored) ? DType::kI64 : stored;
}

Sources Conversion::open_sources() {
  if (options_.cells) {
    selection_json_ = selection_json(options_.cells);
    return sources_of(options_.cells);
  }
  if (options_.open_sources) {
    selection_json_ = options_.selection_json;
    return options_.open_sources();
  }
  from_ = source_options(options_);
  FilteredRows filtered = filter_rows(from_, options_.filter, pool_);
  from_.rows = std::move(filtered.rows);
  selection_json_ = std::move(filtered.selection_json);
  filter_warnings_ = std::move(filtered.warnings);
  return Sources::open(from_);
}

Conversion::Conversion(const ConvertOptions& options)
    : options_(checked(options)),
      limits_{options.memory_budget / 4, 256},
      pool_(exec::checked_thread_count(options.threads)),
      sources_(open_sources()),
      encoder_(sources_, options.layout, dtype_to_write(options, sources_.value_dtype())) {
  options_.shard_size = std::min(options_.shard_size, kMaxShardSize);
  if (options.cells) cache_ = options.cells.cells->reserve_cache(options.memory_budget / 4);
  if (n_shards() > kMaxShards)
    throw_invalid(
        "{} cells in shards of {} are {} shards, and a directory holds {} at most: ask for "
        "larger shards",
        sources_.n_cells(), options_.shard_size, n_shards(), kMaxShards);
  require_utf8_paths(sources_);
  if (options.refuse_absent_genes && !sources_.absent_genes_text().empty())
    throw Error(ErrorKind::kNoSuchKey, sources_.absent_genes_text());
  obs_schema_ = shard::stored_obs_schema(*sources_.obs().schema(), options_.inputs.front());
  open_further();
}

void Conversion::open_further() {
  const auto names = matrix_names(options_.layers, options_.obsm);
  auto matrices = options_.cells          ? matrices_of(options_.cells)
                  : options_.open_further ? options_.open_further()
                                          : open_matrices(sources_, from_, names);
  for (MatrixSource& source : matrices) {
    const shard::Layout layout = layout_of(source);
    const Sources& of_matrix = *source.sources;
    if (of_matrix.genes().size() > shard::kMaxObsmColumns && format::is_obsm(source.name))
      throw_error(ErrorKind::kUnsupported, of_matrix.store(0).info().path,
                  "'{}' has {} columns, and shards hold arrays of obsm of at most {}", source.name,
                  of_matrix.genes().size(), shard::kMaxObsmColumns);
    const DType dtype = layout == shard::Layout::kDense ? DType::kF32 : of_matrix.value_dtype();
    further_.push_back(std::unique_ptr<Further>(
        new Further{std::move(source), CellEncoder(of_matrix, layout, dtype, false)}));
  }
}

std::string Conversion::plan() const {
  std::vector<PlannedMatrix> matrices{{"X", sources_, encoder_.value_dtype()}};
  for (const auto& further : further_)
    matrices.push_back(
        {further->source.name, *further->source.sources, further->encoder.value_dtype()});
  return conversion_plan(options_, matrices, *obs_schema_, selection_json_);
}

// Of finished shards, compared with their checksums by the threads of the pool.
shard::ResumeOptions Conversion::resume_options() {
  shard::ResumeOptions resume;
  resume.describe_difference = plan_difference;
  resume.progress = [this, clock = ProgressMeter({}, "", 0)](std::int64_t done,
                                                             std::int64_t total) {
    if (options_.stop.stop_requested())
      throw Error(ErrorKind::kCancelled, "stopped before the end", options_.output_dir);
    if (!options_.progress) return;
    const double seconds = clock.seconds();
    options_.progress({"checking finished shards", done, total,
                       seconds > 0 ? static_cast<double>(done) / seconds : 0});
  };
  resume.parallel = [this](std::int64_t n, const std::function<void(std::int64_t)>& task) {
    pool_.parallel_for(n, task);
  };
  return resume;
}

shard::FileEntry Conversion::write_genes() const {
  auto var = sources_.read_var();
  std::vector<std::int64_t> original = encoder_.gene_order();
  if (original.empty()) {
    original.resize(sources_.genes().names.size());
    std::iota(original.begin(), original.end(), std::int64_t{0});
  } else {
    var = take_rows(*var, original);
  }
  return shard::write_genes(target_, var, original, generation_);
}

std::optional<shard::FileEntry> Conversion::write_annotations() {
  if (!options_.carries_annotations) return std::nullopt;
  CarriedAnnotations carried({.inputs = options_.inputs,
                              .allow_external = options_.allow_external,
                              .is_selection = options_.cells || options_.open_sources},
                             sources_);
  auto written = carried.write_to(target_, generation_);
  left_out_text_ = carried.left_out_text();
  return written;
}

shard::Manifest Conversion::make_manifest(shard::FileEntry genes) const {
  shard::Manifest manifest;
  manifest.layout = options_.layout;
  manifest.n_genes = sources_.genes().size();
  manifest.value_dtype = encoder_.value_dtype();
  manifest.gene_order = options_.gene_order;
  manifest.keeps_library_sizes = encoder_.keeps_library_sizes();
  manifest.gene_fingerprint = shard::gene_fingerprint(encoder_.gene_names());
  manifest.processing_json = sources_.processing_json();
  manifest.selection_json = selection_json_;
  manifest.shard_size = options_.shard_size;
  manifest.genes = std::move(genes);
  for (const auto& further : further_)
    manifest.matrices.push_back({.name = further->source.name,
                                 .layout = further->encoder.layout(),
                                 .n_columns = further->source.sources->genes().size(),
                                 .value_dtype = further->encoder.value_dtype()});
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const auto& store = sources_.store(s);
    manifest.sources.push_back(
        {store.info().path, store.info().layer, store.fingerprint(), store.info().n_rows});
  }
  return manifest;
}

shard::ShardSpec Conversion::shard_spec() const {
  shard::ShardSpec spec;
  spec.dir = target_;
  spec.generation = generation_;
  spec.layout = options_.layout;
  spec.cells.n_genes = sources_.genes().size();
  spec.cells.value_dtype = encoder_.value_dtype();
  spec.cells.gene_order = options_.gene_order;
  spec.obs_schema = obs_schema_;
  spec.keeps_library_sizes = encoder_.keeps_library_sizes();
  for (const auto& further : further_)
    spec.matrices.push_back({.layout = further->encoder.layout(),
                             .n_columns = further->source.sources->genes().size(),
                             .value_dtype = further->encoder.value_dtype(),
                             .gene_order = format::is_obsm(further->source.name)
                                               ? shard::GeneOrder::kSource
                                               : options_.gene_order});
  return spec;
}

// Cells per second.
double Conversion::write_shards(shard::PartialManifest& journal) {
  const auto n_matrices = 1 + std::ssize(further_);
  std::deque<PassedPages> pages;
  std::vector<MatrixPass> matrices;
  const auto add = [&](const Sources& sources, CellEncoder& encoder) {
    auto& passed = pages.emplace_back(sources, options_.memory_budget / 8 / n_matrices);
    matrices.push_back({sources, encoder, passed});
  };
  add(sources_, encoder_);
  for (const auto& further : further_) add(*further->source.sources, further->encoder);
  const ShardPass pass{.matrices = std::move(matrices),
                       .pool = pool_,
                       .journal = journal,
                       .spec = shard_spec(),
                       .shard_size = options_.shard_size,
                       .memory_bytes = options_.memory_budget / 4,
                       .limits = limits_,
                       .progress = options_.progress,
                       .stop = options_.stop};
  try {
    return options_.shuffle ? write_shuffled(pass, options_.seed) : write_in_order(pass);
  } catch (const Error& error) {
    const auto kind = error.kind();
    if (!options_.names_resume ||
        (kind != ErrorKind::kNoSpace && kind != ErrorKind::kIo && kind != ErrorKind::kCancelled))
      throw;
    throw Error(kind,
                fmt::format("{}; {} of {} {}shards are finished and stay: continue with --resume{}",
                            error.what(), journal.finished().size(), n_shards(),
                            is_rewritten_ ? "new " : "",
                            is_rewritten_ ? "; the old ones are as they were" : ""));
  }
}

void Conversion::require_same_conversion(const shard::Manifest& manifest) const {
  if (manifest.plan_fingerprint == shard::plan_fingerprint(plan())) return;
  throw Error(ErrorKind::kAlreadyExists,
              "holds finished shards of other inputs or options; choose another directory, or "
              "replace them with --overwrite",
              options_.output_dir);
}

// A journal from elsewhere may name any shard.
void Conversion::require_shards_of_plan(const shard::PartialManifest& journal) const {
  for (const auto& [number, entry] : journal.finished())
    if (number < 0 || number >= n_shards() || entry.first_cell != shard_begin(number) ||
        entry.n_cells != shard_end(number) - shard_begin(number))
      throw_error(ErrorKind::kCorruptData, options_.output_dir,
                  "the journal has a shard {} of cells {} to {}, which this conversion has not; "
                  "start again with --overwrite",
                  number, entry.first_cell, entry.first_cell + entry.n_cells);
}

void Conversion::require_whole() {
  const shard::ResumeOptions resume = resume_options();
  const auto in_cells = [&](std::int64_t done, std::int64_t total) {
    const double part =
        static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(1, total));
    resume.progress(static_cast<std::int64_t>(part * static_cast<double>(sources_.n_cells())),
                    sources_.n_cells());
  };
  for (const auto& damage : shard::verify_shard_dir(options_.output_dir, in_cells, resume.parallel))
    if (damage.end > damage.begin)
      throw_error(
          ErrorKind::kCorruptData, options_.output_dir,
          "the shards are finished, but damaged: {}, bytes {} to {}: {}; convert again with "
          "--overwrite",
          damage.file, damage.begin, damage.end, damage.what);
}

ConvertResult Conversion::result_of(const shard::Manifest& manifest, std::int64_t resumed) const {
  ConvertResult result;
  result.n_cells = manifest.n_cells;
  result.n_genes = manifest.n_genes;
  result.nnz = manifest.nnz;
  result.n_shards = std::ssize(manifest.shards);
  result.n_shards_resumed = resumed;
  result.n_absent_genes = std::ssize(sources_.absent_genes());
  result.absent_genes_text = sources_.absent_genes_text();
  // Of an open collection it was said when it was opened.
  if (!options_.cells) result.left_out_text = sources_.left_out_text();
  add_sentence(result.left_out_text, left_out_text_);
  result.filter_warnings = filter_warnings_;
  result.n_genes_left_out = encoder_.n_genes_left_out();
  for (const auto* file : common_files(manifest)) result.bytes += file->bytes;
  for (const auto& entry : manifest.shards) {
    result.bytes += shard::bytes_of(entry);
    result.not_finite += entry.not_finite;
    for (const shard::ShardMatrix& matrix : entry.matrices) result.not_finite += matrix.not_finite;
  }
  return result;
}

void Conversion::transpose_columns() {
  std::vector<Sources*> by_columns;
  if (!sources_.is_by_rows()) by_columns.push_back(&sources_);
  for (const auto& further : further_)
    if (!further->source.sources->is_by_rows()) by_columns.push_back(further->source.sources.get());
  for (Sources* sources : by_columns)
    sources->transpose(pool_, {.dir = target_,
                               .memory_bytes = options_.memory_budget / 4 / std::ssize(by_columns),
                               .progress = options_.progress,
                               .stop = options_.stop});
}

// That of the first matrix; layers have it too.
void Conversion::order_genes() {
  if (options_.gene_order != shard::GeneOrder::kMean) return;
  const auto order = genes_by_mean(sources_, pool_, limits_, options_.progress, options_.stop);
  encoder_.set_gene_order(order);
  for (const auto& further : further_)
    if (!format::is_obsm(further->source.name)) further->encoder.set_gene_order(order);
}

ConvertResult Conversion::run() {
  const auto start = std::chrono::steady_clock::now();
  TargetDirectory target(options_.output_dir, options_.existing, sources_);
  if (target.is_finished()) {
    const shard::Manifest manifest = shard::read_manifest(options_.output_dir);
    require_same_conversion(manifest);
    require_whole();
    return result_of(manifest, std::ssize(manifest.shards));
  }
  target_ = target.directory();
  shard::PartialManifest journal = target.open_journal(plan(), resume_options());
  require_shards_of_plan(journal);
  generation_ = journal.generation();
  is_rewritten_ = target.is_rewritten();
  const auto resumed = std::ssize(journal.finished());
  if (resumed < n_shards()) transpose_columns();
  order_genes();
  shard::FileEntry genes = write_genes();
  const auto annotations = write_annotations();
  const double rate = write_shards(journal);
  shard::Manifest manifest = make_manifest(std::move(genes));
  manifest.annotations = annotations;
  ConvertResult result = result_of(journal.commit(std::move(manifest)), resumed);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.cells_per_second = rate;
  return result;
}

}  // namespace

SourceOptions source_options(const ConvertOptions& options) {
  SourceOptions source;
  source.paths = options.inputs;
  source.layer = options.layer;
  source.allow_external = options.allow_external;
  source.genome = options.genome;
  source.feature_type = options.feature_type;
  source.join = options.join;
  source.genes = options.genes;
  source.make_unique = options.make_unique;
  source.var_keys = options.var_keys;
  source.cache_bytes = options.memory_budget / 4;
  source.row_maker = options.row_maker;
  return source;
}

bool can_widen(DType stored) { return is_integer(stored) && dtype_bytes(stored) < 8; }

ConvertResult convert_to_shards(const ConvertOptions& options) { return Conversion(options).run(); }

}  // namespace cellfeed::convert
