// Shards, exports, simulations: whole files in, whole files out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <string_view>
#include <utility>

#include "bindings.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/append/append.h"
#include "cellfeed/convert/export.h"
#include "cellfeed/convert/info.h"
#include "cellfeed/convert/preprocess/preprocess.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/convert/simulate/simulate.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/small_file.h"
#include "conversion_options.h"
#include "gil.h"
#include "paths.h"
#include "waiting_calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

// The value that `text` names; `choices` are "first", "second", ...
template <typename T>
T choose(std::string_view option, const std::string& text,
         std::initializer_list<std::pair<std::string_view, T>> choices) {
  std::string known;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
  }
  throw_invalid("{} must be one of {}: '{}'", option, known, text);
}

format::h5ad::Compression compression_of(const std::string& name) {
  return choose<format::h5ad::Compression>(
      "compression", name,
      {{"none", format::h5ad::Compression::kNone}, {"gzip", format::h5ad::Compression::kGzip}});
}

convert::ExistingTarget existing_target(const std::string& name) {
  using convert::ExistingTarget;
  return choose<ExistingTarget>("existing", name,
                                {{"refuse", ExistingTarget::kRefuse},
                                 {"resume", ExistingTarget::kResume},
                                 {"overwrite", ExistingTarget::kOverwrite}});
}

nb::dict convert_to_shards(std::vector<FilePath> inputs, FilePath output_dir,
                           std::int64_t shard_size, const std::string& layout, std::string layer,
                           const std::string& gene_order, std::vector<std::string> genes,
                           bool refuse_absent_genes, std::string join, bool shuffle,
                           std::uint64_t seed, bool make_unique, int threads,
                           std::int64_t memory_budget, const std::string& existing,
                           std::string genome, std::string feature_type,
                           std::vector<std::string> layers, std::vector<std::string> obsm,
                           std::vector<std::string> var_keys, std::vector<std::string> obs,
                           std::vector<std::string> exclude_obs, GivenCells cells,
                           const nb::object& progress) {
  using format::shard::GeneOrder;
  using format::shard::Layout;
  convert::ConvertOptions options;
  options.cells = chosen_cells(std::move(cells));
  options.inputs = options.cells ? paths_of(options.cells) : path_bytes(std::move(inputs));
  options.output_dir = std::move(output_dir.bytes);
  options.shard_size = shard_size;
  options.layout =
      choose<Layout>("layout", layout, {{"packed", Layout::kPacked}, {"dense", Layout::kDense}});
  options.layer = std::move(layer);
  options.layers = std::move(layers);
  options.obsm = std::move(obsm);
  options.choice.genome = std::move(genome);
  options.choice.feature_type = std::move(feature_type);
  options.gene_order = choose<GeneOrder>(
      "gene_order", gene_order, {{"source", GeneOrder::kSource}, {"mean", GeneOrder::kMean}});
  options.genes = std::move(genes);
  options.refuse_absent_genes = refuse_absent_genes;
  options.join = std::move(join);
  options.shuffle = shuffle;
  options.seed = seed;
  options.make_unique = make_unique;
  options.var_keys = std::move(var_keys);
  options.obs = {std::move(obs), std::move(exclude_obs)};
  options.existing = existing_target(existing);
  return dict_of(run_with(options, threads, memory_budget, progress, convert::convert_to_shards));
}

nb::dict append_to_shards(std::vector<FilePath> inputs, FilePath shards, std::int64_t shard_size,
                          std::string layer, const std::string& extra_genes,
                          bool refuse_missing_genes, std::vector<std::string> var_keys,
                          bool make_unique, bool shuffle, std::uint64_t seed, bool force,
                          bool resume, int threads, std::int64_t memory_budget, std::string genome,
                          std::string feature_type, std::vector<std::string> obs,
                          std::vector<std::string> exclude_obs, GivenCells cells,
                          const nb::object& progress) {
  convert::AppendOptions options;
  convert::ConvertOptions& convert = options.convert;
  convert.cells = chosen_cells(std::move(cells));
  convert.inputs = convert.cells ? paths_of(convert.cells) : path_bytes(std::move(inputs));
  convert.output_dir = std::move(shards.bytes);
  convert.shard_size = shard_size;
  convert.layer = std::move(layer);
  options.extra_genes = choose<convert::ExtraGenes>(
      "extra_genes", extra_genes,
      {{"error", convert::ExtraGenes::kRefuse}, {"drop", convert::ExtraGenes::kDrop}});
  options.refuse_missing_genes = refuse_missing_genes;
  convert.var_keys = std::move(var_keys);
  convert.make_unique = make_unique;
  convert.shuffle = shuffle;
  convert.seed = seed;
  options.is_forced = force;
  options.resumes = resume;
  convert.obs = {std::move(obs), std::move(exclude_obs)};
  convert.choice.genome = std::move(genome);
  convert.choice.feature_type = std::move(feature_type);
  return dict_of(run_with(convert, threads, memory_budget, progress,
                          [&](auto&) { return convert::append_to_shards(options); }));
}

nb::dict preprocess(std::vector<FilePath> inputs, FilePath output, bool normalize,
                    double target_sum, bool log_transform, std::int64_t n_top_genes,
                    const std::string& hvg_flavor, std::string batch_key, std::int64_t min_genes,
                    std::int64_t min_cells, double max_mito_share, std::string mito_prefix,
                    bool keep_counts, bool force, std::int64_t shard_size, std::string layer,
                    std::vector<std::string> genes, bool refuse_absent_genes, std::string join,
                    bool make_unique, const std::string& compression, int threads,
                    std::int64_t memory_budget, const std::string& existing, std::string genome,
                    std::string feature_type, std::vector<std::string> var_keys,
                    std::vector<std::string> obs, std::vector<std::string> exclude_obs,
                    GivenCells cells, const nb::object& progress) {
  convert::PreprocessOptions options;
  convert::ProcessingOptions& processing = options.processing;
  processing.normalize = normalize;
  processing.target_sum = target_sum;
  processing.log_transform = log_transform;
  processing.n_top_genes = n_top_genes;
  processing.flavor = convert::flavor_from_name(hvg_flavor);
  processing.batch_key = std::move(batch_key);
  processing.min_genes = min_genes;
  processing.min_cells = min_cells;
  processing.max_mito_share = max_mito_share;
  processing.mito_prefix = std::move(mito_prefix);
  processing.keeps_counts = keep_counts;
  processing.is_forced = force;
  convert::ConvertOptions& convert = options.convert;
  convert.cells = chosen_cells(std::move(cells));
  convert.inputs = convert.cells ? paths_of(convert.cells) : path_bytes(std::move(inputs));
  convert.output_dir = std::move(output.bytes);
  convert.shard_size = shard_size;
  convert.layer = std::move(layer);
  convert.choice.genome = std::move(genome);
  convert.choice.feature_type = std::move(feature_type);
  convert.genes = std::move(genes);
  convert.refuse_absent_genes = refuse_absent_genes;
  convert.join = std::move(join);
  convert.make_unique = make_unique;
  convert.var_keys = std::move(var_keys);
  convert.obs = {std::move(obs), std::move(exclude_obs)};
  convert.existing = existing_target(existing);
  options.compression = compression_of(compression);
  return dict_of(run_with(convert, threads, memory_budget, progress,
                          [&](auto&) { return convert::preprocess(options); }));
}

nb::dict export_h5ad(std::vector<FilePath> inputs, FilePath output, std::string layer,
                     std::string join, bool make_unique, bool keep_stored_gene_order,
                     bool keep_source_columns, const std::string& compression, int threads,
                     std::int64_t memory_budget, bool overwrite, std::string genome,
                     std::string feature_type, std::optional<std::vector<std::string>> layers,
                     std::optional<std::vector<std::string>> obsm,
                     std::vector<std::string> var_keys, std::vector<std::string> obs,
                     std::vector<std::string> exclude_obs, GivenCells cells,
                     const nb::object& progress) {
  convert::ExportOptions options;
  options.cells = chosen_cells(std::move(cells));
  options.gives_all = !layers && !obsm;
  if (layers) options.layers = std::move(*layers);
  if (obsm) options.obsm = std::move(*obsm);
  options.choice.genome = std::move(genome);
  options.choice.feature_type = std::move(feature_type);
  options.inputs = options.cells ? paths_of(options.cells) : path_bytes(std::move(inputs));
  options.output = std::move(output.bytes);
  options.layer = std::move(layer);
  options.join = std::move(join);
  options.make_unique = make_unique;
  options.var_keys = std::move(var_keys);
  options.obs = {std::move(obs), std::move(exclude_obs)};
  options.keep_stored_gene_order = keep_stored_gene_order;
  options.keep_source_columns = keep_source_columns;
  options.compression = compression_of(compression);
  options.overwrite = overwrite;
  const convert::ExportResult r =
      run_with(options, threads, memory_budget, progress, convert::export_h5ad);
  nb::dict out = figures_of(r);
  out["left_out_text"] = r.left_out_text;
  return out;
}

nb::dict simulate(FilePath like, std::string layer, std::int64_t n_cells, FilePath output,
                  std::int64_t n_files, std::uint64_t seed, std::string order, bool thin,
                  const std::string& compression, int threads, std::int64_t memory_budget,
                  bool overwrite, std::string genome, std::string feature_type,
                  const nb::object& progress) {
  convert::SimulateOptions options;
  options.choice.genome = std::move(genome);
  options.choice.feature_type = std::move(feature_type);
  options.like = std::move(like.bytes);
  options.layer = std::move(layer);
  options.n_cells = n_cells;
  options.output = std::move(output.bytes);
  options.n_files = n_files;
  options.seed = seed;
  options.order = std::move(order);
  options.thin = thin;
  options.compression = compression_of(compression);
  options.overwrite = overwrite;
  const convert::SimulateResult r =
      run_with(options, threads, memory_budget, progress, convert::simulate);
  nb::dict out = figures_of(r);
  out["n_real_cells"] = r.n_real_cells;
  out["has_counts"] = r.has_counts;
  nb::list files;
  for (const std::string& file : r.files) files.append(as_path(file));
  out["files"] = files;
  out["left_out_text"] = r.left_out_text;
  return out;
}

std::vector<format::shard::Damage> find_damage(const std::string& dir, int threads,
                                               const convert::ProgressCallback& report) {
  exec::ThreadPool pool(exec::checked_thread_count(threads));
  const convert::ProgressMeter clock({}, "verifying", 0);
  return format::shard::verify_shard_dir(
      dir,
      [&](std::int64_t done, std::int64_t total) {
        exec::throw_if_stopped();
        const double seconds = clock.seconds();
        report({"verifying", done, total, seconds > 0 ? static_cast<double>(done) / seconds : 0});
      },
      [&pool](std::int64_t n, const std::function<void(std::int64_t)>& task) {
        pool.parallel_for(n, task);
      });
}

nb::list verify(const FilePath& dir, int threads, const nb::object& progress) {
  exec::checked_thread_count(threads);
  const auto damages = run_watched(progress, [&](const auto& report, const auto&) {
    return find_damage(dir.bytes, threads, report);
  });
  nb::list out;
  for (const auto& d : damages) {
    nb::dict damage;
    damage["file"] = d.file;
    damage["shard"] = d.shard;
    damage["segment"] = d.segment;
    damage["begin"] = d.begin;
    damage["end"] = d.end;
    damage["what"] = d.what;
    out.append(damage);
  }
  return out;
}

std::string describe(const FilePath& path, const std::string& layer, const std::string& genome,
                     const std::string& feature_type, const std::string& modality,
                     std::optional<bool> transpose) {
  format::OpenOptions options;
  options.choice = {genome, feature_type, modality, transpose};
  options.layer = layer;
  return call_released(!io::is_local(path.bytes), [&] {
    return convert::description_json(convert::describe_path(path.bytes, options));
  });
}

void write_file(const FilePath& path, const nb::bytes& content) {
  const std::string_view bytes(content.c_str(), content.size());
  const ReleasedGil released;
  io::write_small_file(path.bytes, bytes);
}

nb::bytes read_file(const FilePath& path, std::int64_t max_bytes) {
  const std::string text = call_released(
      !io::is_local(path.bytes), [&] { return io::read_small_file(path.bytes, max_bytes); });
  return nb::bytes(text.data(), text.size());
}

}  // namespace

void bind_convert(nb::module_& module) {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(stop_watched_work));
  module.def("write_file", &write_file, "path"_a, "content"_a);
  module.def("read_file", &read_file, "path"_a, "max_bytes"_a);
  module.def("convert_to_shards", &convert_to_shards, "inputs"_a, "output_dir"_a, "shard_size"_a,
             "layout"_a, "layer"_a, "gene_order"_a, "genes"_a, "refuse_absent_genes"_a, "join"_a,
             "shuffle"_a, "seed"_a, "make_unique"_a, "threads"_a, "memory_budget"_a, "existing"_a,
             "genome"_a, "feature_type"_a, "layers"_a, "obsm"_a, "var_keys"_a, "obs"_a,
             "exclude_obs"_a, "cells"_a.none(), "progress"_a.none());
  module.def("append_to_shards", &append_to_shards, "inputs"_a, "shards"_a, "shard_size"_a,
             "layer"_a, "extra_genes"_a, "refuse_missing_genes"_a, "var_keys"_a, "make_unique"_a,
             "shuffle"_a, "seed"_a, "force"_a, "resume"_a, "threads"_a, "memory_budget"_a,
             "genome"_a, "feature_type"_a, "obs"_a, "exclude_obs"_a, "cells"_a.none(),
             "progress"_a.none());
  module.def("preprocess", &preprocess, "inputs"_a, "output"_a, "normalize"_a, "target_sum"_a,
             "log_transform"_a, "n_top_genes"_a, "hvg_flavor"_a, "batch_key"_a, "min_genes"_a,
             "min_cells"_a, "max_mito_share"_a, "mito_prefix"_a, "keep_counts"_a, "force"_a,
             "shard_size"_a, "layer"_a, "genes"_a, "refuse_absent_genes"_a, "join"_a,
             "make_unique"_a, "compression"_a, "threads"_a, "memory_budget"_a, "existing"_a,
             "genome"_a, "feature_type"_a, "var_keys"_a, "obs"_a, "exclude_obs"_a, "cells"_a.none(),
             "progress"_a.none());
  module.def("export_h5ad", &export_h5ad, "inputs"_a, "output"_a, "layer"_a, "join"_a,
             "make_unique"_a, "keep_stored_gene_order"_a, "keep_source_columns"_a, "compression"_a,
             "threads"_a, "memory_budget"_a, "overwrite"_a, "genome"_a, "feature_type"_a,
             "layers"_a.none(), "obsm"_a.none(), "var_keys"_a, "obs"_a, "exclude_obs"_a,
             "cells"_a.none(), "progress"_a.none());
  module.def("simulate", &simulate, "like"_a, "layer"_a, "n_cells"_a, "output"_a, "n_files"_a,
             "seed"_a, "order"_a, "thin"_a, "compression"_a, "threads"_a, "memory_budget"_a,
             "overwrite"_a, "genome"_a, "feature_type"_a, "progress"_a.none());
  module.def("verify", &verify, "path"_a, "threads"_a, "progress"_a.none());
  module.def("describe", &describe, "path"_a, "layer"_a, "genome"_a, "feature_type"_a, "modality"_a,
             "transpose"_a.none());
}

}  // namespace cellfeed::bindings
