#include "cellfeed/convert/shard_conversion.h"

#include <arrow/api.h>
#include <arrow/util/utf8.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <variant>

#include "cellfeed/convert/cell_shuffle.h"
#include "cellfeed/convert/cell_tasks.h"
#include "cellfeed/convert/gene_order.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/row_reader.h"
#include "cellfeed/convert/shard_sequence.h"
#include "cellfeed/convert/sources.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/obs_schema.h"
#include "cellfeed/format/shard/verify.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

struct Task {
  std::int64_t shard = 0;
  CellTask cells;
};

using TaskResult = std::variant<shard::EncodedRows, std::shared_ptr<arrow::Table>>;
struct ScatteredRows {
  std::vector<BucketSlot> slots;
  shard::EncodedRows rows;
};
using ScatterResult = std::variant<ScatteredRows, std::vector<ObsScatter::Piece>>;

class Conversion {
 public:
  explicit Conversion(const ConvertOptions& options);
  ConvertResult run();

 private:
  std::string plan() const;
  void order_genes();
  shard::Manifest make_manifest(shard::FileEntry genes) const;
  shard::FileEntry write_genes() const;
  void write_shards(shard::PartialManifest& journal);
  void write_in_order(shard::PartialManifest& journal);
  void write_shuffled(shard::PartialManifest& journal);
  CellTaskSizes task_sizes() const;
  std::vector<Task> make_tasks(const std::map<std::int64_t, shard::ShardEntry>& finished) const;
  std::int64_t plan_bytes(const CellTask& task) const;
  shard::EncodedRows encode(std::int64_t source, std::span<const std::int64_t> rows);
  TaskResult produce(const Task& task);
  void scatter(CellShuffle& shuffle, std::int64_t cells_before);
  ShardSequence make_writer(shard::PartialManifest& journal) const;
  void require_same_conversion(const shard::Manifest& manifest) const;
  void require_whole() const;
  void require_shards_of_plan(const shard::PartialManifest& journal) const;
  ConvertResult result_of(const shard::Manifest& manifest, std::int64_t resumed) const;
  std::int64_t n_shards() const {
    return (sources_.n_cells() + options_.shard_size - 1) / options_.shard_size;
  }
  std::int64_t dense_bytes(std::int64_t n_cells) const {
    return n_cells * sources_.genes().size() * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t shard_begin(std::int64_t shard) const { return shard * options_.shard_size; }
  std::int64_t shard_end(std::int64_t shard) const {
    return std::min(sources_.n_cells(), (shard + 1) * options_.shard_size);
  }
  std::span<const std::int32_t> gene_position(std::int64_t source) const {
    return positions_[source] ? std::span<const std::int32_t>(*positions_[source])
                              : std::span<const std::int32_t>();
  }

  ConvertOptions options_;
  io::Directory target_;  // from run() on
  shard::Generation generation_ = 0;
  bool is_rewritten_ = false;
  PipelineLimits limits_;
  Sources sources_;
  DType value_dtype_;
  std::shared_ptr<arrow::Schema> obs_schema_;
  std::vector<std::int64_t> gene_order_;  // joined column of each stored gene; empty: as joined
  // Per source: its column -> stored position; null where they are the same. Shared between sources
  // with the same axis.
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> positions_;
  exec::ThreadPool pool_;
  PiecePool pieces_;
  std::optional<PassedPages> pages_;
  std::optional<ProgressMeter> meter_;
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

SourceOptions source_options(const ConvertOptions& options) {
  SourceOptions source;
  source.paths = options.inputs;
  source.layer = options.layer;
  source.join = options.join;
  source.genes = options.genes;
  source.make_unique = options.make_unique;
  source.cache_bytes = options.memory_budget / 4;
  return source;
}

// Shards name their sources, in JSON and in Arrow.
void require_utf8_paths(const Sources& sources) {
  arrow::util::InitializeUTF8();
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const std::string& path = sources.store(s).info().path;
    if (!arrow::util::ValidateUTF8(path))
      throw_error(ErrorKind::kInvalidArgument, path,
                  "shards keep the names of their sources, and this one is not UTF-8; rename the "
                  "file");
  }
}

Conversion::Conversion(const ConvertOptions& options)
    : options_(checked(options)),
      limits_{options.memory_budget / 4, 256},
      sources_(Sources::open(source_options(options))),
      value_dtype_(options.layout == shard::Layout::kDense ? DType::kF32 : sources_.value_dtype()),
      pool_(exec::checked_thread_count(options.threads)) {
  options_.shard_size = std::min(options_.shard_size, kMaxShardSize);
  if (n_shards() > kMaxShards)
    throw_invalid(
        "{} cells in shards of {} are {} shards, and a directory holds {} at most: ask for "
        "larger shards",
        sources_.n_cells(), options_.shard_size, n_shards(), kMaxShards);
  require_utf8_paths(sources_);
  if (options.refuse_absent_genes && !sources_.absent_genes_text().empty())
    throw Error(ErrorKind::kNoSuchKey, sources_.absent_genes_text());
  obs_schema_ = shard::stored_obs_schema(*sources_.obs().schema(), options_.inputs.front());
}

// All that decides the output's bytes. obs names the files, so their paths do too.
std::string Conversion::plan() const {
  nlohmann::json plan = {
      {"writer", 1},
      {"layout", options_.layout == shard::Layout::kDense ? "dense" : "packed"},
      {"gene_order", options_.gene_order == shard::GeneOrder::kMean ? "mean" : "source"},
      {"shard_size", options_.shard_size},
      {"value_dtype", dtype_name(value_dtype_)},
      {"genes", shard::gene_fingerprint(sources_.genes().names)},
      {"join", options_.join},
      {"obs", obs_schema_->ToString()},
  };
  if (options_.shuffle) plan["shuffle_seed"] = options_.seed;
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const auto& store = sources_.store(s);
    plan["sources"].push_back({{"path", store.info().path},
                               {"layer", store.info().layer},
                               {"fingerprint", store.fingerprint()},
                               {"n_cells", store.info().n_rows}});
  }
  return plan.dump();
}

void Conversion::order_genes() {
  const std::int64_t n_genes = sources_.genes().size();
  std::vector<std::int32_t> rank;
  if (options_.gene_order == shard::GeneOrder::kMean) {
    gene_order_ = genes_by_mean(sources_, pool_, limits_, options_.progress, options_.stop);
    rank.resize(n_genes);
    for (std::int64_t i = 0; i < n_genes; ++i) rank[gene_order_[i]] = static_cast<std::int32_t>(i);
  }
  std::map<const std::int32_t*, std::shared_ptr<const std::vector<std::int32_t>>> by_map;
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const auto map = sources_.gene_map(s);
    auto& positions = by_map[map.data()];
    if (!positions && !(map.empty() && rank.empty())) {
      std::vector<std::int32_t> own(sources_.store(s).genes().names.size());
      for (std::size_t column = 0; column < own.size(); ++column) {
        const std::int32_t joined = map.empty() ? static_cast<std::int32_t>(column) : map[column];
        own[column] = joined < 0 || rank.empty() ? joined : rank[joined];
      }
      positions = std::make_shared<const std::vector<std::int32_t>>(std::move(own));
    }
    positions_.push_back(positions);
  }
}

shard::FileEntry Conversion::write_genes() const {
  auto var = sources_.read_var();
  std::vector<std::int64_t> original = gene_order_;
  if (original.empty()) {
    original.resize(sources_.genes().names.size());
    std::iota(original.begin(), original.end(), std::int64_t{0});
  } else {
    var = take_rows(*var, original);
  }
  return shard::write_genes(target_, var, original, generation_);
}

shard::Manifest Conversion::make_manifest(shard::FileEntry genes) const {
  shard::Manifest manifest;
  manifest.layout = options_.layout;
  manifest.n_genes = sources_.genes().size();
  manifest.value_dtype = value_dtype_;
  manifest.gene_order = options_.gene_order;
  std::vector<std::string> names = sources_.genes().names;
  for (std::size_t i = 0; i < gene_order_.size(); ++i)
    names[i] = sources_.genes().names[gene_order_[i]];
  manifest.gene_fingerprint = shard::gene_fingerprint(names);
  manifest.processing_json = sources_.processing_json();
  manifest.shard_size = options_.shard_size;
  manifest.genes = std::move(genes);
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const auto& store = sources_.store(s);
    manifest.sources.push_back(
        {store.info().path, store.info().layer, store.fingerprint(), store.info().n_rows});
  }
  return manifest;
}

CellTaskSizes Conversion::task_sizes() const {
  CellTaskSizes sizes;
  if (options_.layout == shard::Layout::kDense)
    sizes.piece_cells =
        std::clamp<std::int64_t>(sizes.piece_bytes / dense_bytes(1), 1, sizes.piece_cells);
  return sizes;
}

std::vector<Task> Conversion::make_tasks(
    const std::map<std::int64_t, shard::ShardEntry>& finished) const {
  std::vector<Task> tasks;
  for (std::int64_t k = 0; k < n_shards(); ++k) {
    if (finished.contains(k)) continue;
    for (const CellTask& cells :
         make_cell_tasks(sources_, shard_begin(k), shard_end(k), task_sizes()))
      tasks.push_back({k, cells});
  }
  return tasks;
}

std::int64_t Conversion::plan_bytes(const CellTask& task) const {
  const SourceRange& range = task.range;
  if (task.is_obs) return plan_obs_bytes(sources_, range);
  const std::int64_t decoded = sources_.plan_bytes(range);
  return decoded +
         (options_.layout == shard::Layout::kDense ? dense_bytes(range.n_cells()) : decoded / 4);
}

shard::EncodedRows Conversion::encode(std::int64_t source, std::span<const std::int64_t> rows) {
  const auto& store = sources_.store(source);
  const auto piece = pieces_.acquire();
  read_rows(store, rows, *piece);
  if (const auto position = gene_position(source); !position.empty())
    renumber_columns(*piece, position, sources_.genes().size());
  shard::CsrSlice slice;
  slice.indptr = piece->indptr;
  slice.indices = piece->indices.data();
  slice.values = piece->values.data();
  slice.dtype = piece->dtype;
  shard::RowEncoding encoding;
  encoding.layout = options_.layout;
  encoding.n_genes = sources_.genes().size();
  encoding.value_dtype = value_dtype_;
  try {
    return shard::encode_rows(slice, encoding);
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("in the piece that begins with row {}: {}", rows.front(), error.what()),
                store.info().path);
  }
}

TaskResult Conversion::produce(const Task& task) {
  const SourceRange& range = task.cells.range;
  std::vector<std::int64_t> rows(range.n_cells());
  std::iota(rows.begin(), rows.end(), range.begin);
  if (task.cells.is_obs)
    return shard::conform_obs(sources_.read_obs(range), obs_schema_,
                              sources_.store(range.source).info().path, rows);
  return encode(range.source, rows);
}

ShardSequence Conversion::make_writer(shard::PartialManifest& journal) const {
  shard::ShardSpec spec;
  spec.dir = target_;
  spec.generation = generation_;
  spec.layout = options_.layout;
  spec.cells.n_genes = sources_.genes().size();
  spec.cells.value_dtype = value_dtype_;
  spec.cells.gene_order = options_.gene_order;
  spec.obs_schema = obs_schema_;
  return {std::move(spec), options_.shard_size, sources_.n_cells(), journal};
}

void Conversion::write_in_order(shard::PartialManifest& journal) {
  const auto finished = journal.finished();
  std::int64_t cells_before = 0;
  for (const auto& [number, entry] : finished) cells_before += entry.n_cells;
  meter_.emplace(options_.progress, "writing shards", sources_.n_cells(), cells_before);
  const std::vector<Task> tasks = make_tasks(finished);
  ShardSequence writer = make_writer(journal);
  run_in_order<TaskResult>(
      pool_, std::ssize(tasks), limits_, [&](std::int64_t i) { return plan_bytes(tasks[i].cells); },
      [&](std::int64_t i) { return produce(tasks[i]); },
      [&](std::int64_t i, TaskResult&& result) {
        if (const auto* obs = std::get_if<std::shared_ptr<arrow::Table>>(&result))
          return writer.append_obs(tasks[i].shard, *obs);
        writer.append(tasks[i].shard, std::get<shard::EncodedRows>(std::move(result)));
        pages_->passed(tasks[i].cells.range);
        meter_->advance(tasks[i].cells.range.n_cells());
      },
      options_.stop);
}

// The first pass of a shuffle.
void Conversion::scatter(CellShuffle& shuffle, std::int64_t cells_before) {
  ProgressMeter meter(options_.progress, "shuffling cells", sources_.n_cells(), cells_before);
  const std::vector<CellTask> tasks =
      make_cell_tasks(sources_, 0, sources_.n_cells(), task_sizes());
  run_in_order<ScatterResult>(
      pool_, std::ssize(tasks), limits_, [&](std::int64_t i) { return plan_bytes(tasks[i]); },
      [&](std::int64_t i) -> ScatterResult {
        const SourceRange& range = tasks[i].range;
        if (tasks[i].is_obs) return shuffle.scatter_obs(range);
        CellShuffle::WantedRows wanted = shuffle.wanted_rows(range);
        shard::EncodedRows rows;
        if (!wanted.rows.empty()) rows = encode(range.source, wanted.rows);
        return ScatteredRows{std::move(wanted.slots), std::move(rows)};
      },
      [&](std::int64_t i, ScatterResult&& result) {
        if (auto* obs = std::get_if<std::vector<ObsScatter::Piece>>(&result))
          return shuffle.add_obs(*obs);
        const auto& scattered = std::get<ScatteredRows>(result);
        shuffle.add_rows(scattered.slots, scattered.rows);
        pages_->passed(tasks[i].range);
        meter.advance(scattered.rows.n_rows());
      },
      options_.stop);
}

void Conversion::write_shuffled(shard::PartialManifest& journal) {
  CellShuffleSpec spec;
  spec.dir = target_;
  spec.seed = options_.seed;
  spec.shard_size = options_.shard_size;
  spec.is_finished.resize(static_cast<std::size_t>(n_shards()));
  std::int64_t cells_before = 0;
  for (const auto& [number, entry] : journal.finished()) {
    spec.is_finished[number] = true;
    cells_before += entry.n_cells;
  }
  spec.cell_bytes = options_.layout == shard::Layout::kDense ? dense_bytes(1) : 0;
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s)
    spec.cell_bytes = std::max(spec.cell_bytes, static_cast<std::int64_t>(sources_.row_bytes(s)));
  spec.memory_bytes = options_.memory_budget / 4;
  meter_.emplace(options_.progress, "writing shards", sources_.n_cells(), cells_before);
  if (cells_before == sources_.n_cells()) return;
  CellShuffle shuffle(sources_, obs_schema_, spec);
  scatter(shuffle, cells_before);
  ShardSequence writer = make_writer(journal);
  run_in_order<std::vector<CellShuffle::Part>>(
      pool_, shuffle.n_buckets(), limits_,
      [&](std::int64_t bucket) { return shuffle.plan_take_bytes(bucket); },
      [&](std::int64_t bucket) { return shuffle.take(bucket); },
      [&](std::int64_t, std::vector<CellShuffle::Part>&& parts) {
        for (CellShuffle::Part& part : parts) {
          const std::int64_t n_rows = part.rows.n_rows();
          writer.append_obs(part.shard, part.obs);
          writer.append(part.shard, std::move(part.rows));
          meter_->advance(n_rows);
          if (options_.stop.stop_requested())
            throw Error(ErrorKind::kCancelled, "stopped before the end");
        }
      },
      options_.stop);
}

void Conversion::write_shards(shard::PartialManifest& journal) {
  pages_.emplace(sources_, options_.memory_budget / 8);
  try {
    options_.shuffle ? write_shuffled(journal) : write_in_order(journal);
  } catch (const Error& error) {
    const auto kind = error.kind();
    if (kind != ErrorKind::kNoSpace && kind != ErrorKind::kIo && kind != ErrorKind::kCancelled)
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

void Conversion::require_whole() const {
  for (const auto& damage : shard::verify_shard_dir(options_.output_dir))
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
  for (std::int64_t s = 0; s < std::ssize(positions_); ++s)
    result.n_genes_left_out = std::max<std::int64_t>(
        result.n_genes_left_out,
        std::ranges::count_if(gene_position(s), [](std::int32_t at) { return at < 0; }));
  result.bytes = manifest.genes.bytes;
  for (const auto& entry : manifest.shards) {
    result.bytes += entry.matrix.bytes + entry.obs.bytes + entry.fixed_obs.bytes;
    result.not_finite += entry.not_finite;
  }
  return result;
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
  shard::PartialManifest journal = target.open_journal(plan());
  require_shards_of_plan(journal);
  generation_ = journal.generation();
  is_rewritten_ = target.is_rewritten();
  const auto resumed = std::ssize(journal.finished());
  order_genes();
  shard::FileEntry genes = write_genes();
  write_shards(journal);
  ConvertResult result = result_of(journal.commit(make_manifest(std::move(genes))), resumed);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.cells_per_second = meter_->rate();
  return result;
}

}  // namespace

ConvertResult convert_to_shards(const ConvertOptions& options) { return Conversion(options).run(); }

}  // namespace cellfeed::convert
