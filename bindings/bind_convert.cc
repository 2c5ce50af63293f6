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
#include "cellfeed/convert/shared_options.h"
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

// options: as convert::shared_options_of takes them; output_dir counts instead of the one in it,
// for paths that are no UTF-8.
convert::SharedOptions options_of(const std::string& text, GivenCells cells, FilePath output_dir) {
  convert::SharedOptions options = convert::shared_options_of(text);
  options.convert.input = input_cells(std::move(cells));
  options.convert.output_dir = std::move(output_dir.bytes);
  return options;
}

nb::dict convert_to_shards(GivenCells cells, FilePath output_dir, const std::string& options,
                           int threads, std::int64_t memory_budget, const nb::object& progress) {
  convert::ConvertOptions convert =
      options_of(options, std::move(cells), std::move(output_dir)).convert;
  return dict_of(run_with(convert, threads, memory_budget, progress, convert::convert_to_shards));
}

// (layer, layers, obsm, genes) of MatricesOfShards.
nb::tuple matrices_to_append(FilePath shards, const std::string& layer) {
  auto there = call_released(!io::is_local(shards.bytes),
                             [&] { return convert::matrices_to_append(shards.bytes, layer); });
  return nb::make_tuple(std::move(there.layer), std::move(there.layers), std::move(there.obsm),
                        std::move(there.genes));
}

nb::dict append_to_shards(GivenCells cells, FilePath shards, std::int64_t shard_size,
                          const std::string& extra_genes, bool refuse_missing_genes, bool shuffle,
                          std::uint64_t seed, bool force, bool resume, std::vector<std::string> obs,
                          std::vector<std::string> exclude_obs, int threads,
                          std::int64_t memory_budget, const nb::object& progress) {
  convert::AppendOptions options;
  convert::ConvertOptions& convert = options.convert;
  convert.input = input_cells(std::move(cells));
  convert.output_dir = std::move(shards.bytes);
  convert.shard_size = shard_size;
  options.extra_genes = choose<convert::ExtraGenes>(
      "extra_genes", extra_genes,
      {{"error", convert::ExtraGenes::kRefuse}, {"drop", convert::ExtraGenes::kDrop}});
  options.refuse_missing_genes = refuse_missing_genes;
  convert.shuffle = shuffle;
  convert.seed = seed;
  options.is_forced = force;
  options.resumes = resume;
  convert.obs = {std::move(obs), std::move(exclude_obs)};
  return dict_of(run_with(convert, threads, memory_budget, progress,
                          [&](auto&) { return convert::append_to_shards(options); }));
}

nb::dict preprocess(GivenCells cells, FilePath output, const std::string& options,
                    const std::string& compression, int threads, std::int64_t memory_budget,
                    const nb::object& progress) {
  convert::SharedOptions given = options_of(options, std::move(cells), std::move(output));
  convert::PreprocessOptions preprocess{.processing = given.processing.value(),
                                        .convert = std::move(given.convert),
                                        .compression = compression_of(compression)};
  return dict_of(run_with(preprocess.convert, threads, memory_budget, progress,
                          [&](auto&) { return convert::preprocess(preprocess); }));
}

std::vector<std::string> matrices_of_shards(std::vector<FilePath> paths) {
  const std::vector<std::string> given = path_bytes(std::move(paths));
  return call_released(are_remote(given), [&] { return convert::matrices_of_shards(given); });
}

nb::dict export_h5ad(GivenCells cells, FilePath output, bool keep_stored_gene_order,
                     bool keep_source_columns, const std::string& compression, bool overwrite,
                     std::vector<std::string> obs, std::vector<std::string> exclude_obs,
                     int threads, std::int64_t memory_budget, const nb::object& progress) {
  convert::ExportOptions options;
  options.input = input_cells(std::move(cells));
  options.output = std::move(output.bytes);
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

nb::dict simulate(GivenCells cells, std::int64_t n_cells, FilePath output, std::int64_t n_files,
                  std::uint64_t seed, std::string order, bool thin, const std::string& compression,
                  bool overwrite, int threads, std::int64_t memory_budget,
                  const nb::object& progress) {
  convert::SimulateOptions options;
  options.input = input_cells(std::move(cells));
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
  module.def("convert_to_shards", &convert_to_shards, "cells"_a, "output_dir"_a, "options"_a,
             "threads"_a, "memory_budget"_a, "progress"_a.none());
  module.def("matrices_to_append", &matrices_to_append, "shards"_a, "layer"_a);
  module.def("append_to_shards", &append_to_shards, "cells"_a, "shards"_a, "shard_size"_a,
             "extra_genes"_a, "refuse_missing_genes"_a, "shuffle"_a, "seed"_a, "force"_a,
             "resume"_a, "obs"_a, "exclude_obs"_a, "threads"_a, "memory_budget"_a,
             "progress"_a.none());
  module.def("preprocess", &preprocess, "cells"_a, "output"_a, "options"_a, "compression"_a,
             "threads"_a, "memory_budget"_a, "progress"_a.none());
  module.def("matrices_of_shards", &matrices_of_shards, "paths"_a);
  module.def("export_h5ad", &export_h5ad, "cells"_a, "output"_a, "keep_stored_gene_order"_a,
             "keep_source_columns"_a, "compression"_a, "overwrite"_a, "obs"_a, "exclude_obs"_a,
             "threads"_a, "memory_budget"_a, "progress"_a.none());
  module.def("simulate", &simulate, "cells"_a, "n_cells"_a, "output"_a, "n_files"_a, "seed"_a,
             "order"_a, "thin"_a, "compression"_a, "overwrite"_a, "threads"_a, "memory_budget"_a,
             "progress"_a.none());
  module.def("verify", &verify, "path"_a, "threads"_a, "progress"_a.none());
  module.def("describe", &describe, "path"_a, "layer"_a, "genome"_a, "feature_type"_a, "modality"_a,
             "transpose"_a.none());
}

}  // namespace cellfeed::bindings
