// Time series: built, appended to, verified.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/series/append.h"
#include "cellfeed/series/build.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/verify.h"
#include "paths.h"
#include "waiting_calls.h"
#include "watched_work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

nb::dict build(std::vector<FilePath> inputs, FilePath output_dir, series::RowColumns columns,
               std::vector<std::string> numeric, int missing, std::vector<std::string> target,
               const std::string& scaler, const std::string& scale, std::string given_scaler,
               std::string fit_until, int duplicates, bool sort, std::string freq,
               const std::string& dtype, std::vector<std::int64_t> windows,
               std::int64_t memory_budget, int threads, bool resume, const nb::object& progress) {
  series::BuildOptions options;
  options.inputs = path_bytes(std::move(inputs));
  options.output_dir = std::move(output_dir.bytes);
  options.columns = std::move(columns);
  options.numeric = std::move(numeric);
  options.columns.missing = static_cast<series::Missing>(missing);
  options.target = std::move(target);
  options.scaler = series::scaler_kind_from_name(scaler);
  options.scale = series::scale_of_from_name(scale);
  options.given_scaler = std::move(given_scaler);
  options.fit_until = std::move(fit_until);
  options.duplicates = static_cast<series::Duplicates>(duplicates);
  options.sort = sort;
  options.freq = std::move(freq);
  options.dtype = dtype_from_name(dtype);
  options.window = windows[0];
  options.horizon = windows[1];
  options.stride = windows[2];
  options.memory_budget = memory_budget;
  options.threads = threads;
  options.resume = resume;
  const series::BuildResult r = run_watched(progress, [&](auto report, auto stop) {
    options.progress = std::move(report);
    options.stop = std::move(stop);
    return series::build_series(options);
  });
  nb::dict out;
  out["n_rows"] = r.n_rows;
  out["n_entities"] = r.n_entities;
  out["n_features"] = r.n_features;
  out["n_files"] = r.n_files;
  out["n_rows_read"] = r.n_rows_read;
  out["n_dropped"] = r.n_dropped;
  out["n_merged"] = r.n_merged;
  out["n_filled"] = r.n_filled;
  out["n_parts_resumed"] = r.n_parts_resumed;
  out["bytes"] = r.bytes;
  out["n_uploads_removed"] = r.n_uploads_removed;
  out["warnings"] = r.warnings;
  out["left_out"] = r.left_out;
  out["seconds"] = r.seconds;
  out["rows_per_second"] = r.rows_per_second;
  return out;
}

nb::dict build_series(std::vector<FilePath> inputs, FilePath output_dir, std::string entity,
                      std::string entity_pattern, std::vector<std::string> time,
                      std::string time_unit, std::vector<std::string> features,
                      std::vector<std::string> numeric, int missing,
                      std::vector<std::string> target, std::vector<std::string> statics,
                      const std::string& scaler, const std::string& scale, std::string given_scaler,
                      std::string fit_until, std::string fit_mask, int duplicates, bool sort,
                      std::string decimal, std::string thousands,
                      std::vector<std::string> na_values, std::string freq,
                      const std::string& dtype, std::vector<std::int64_t> windows,
                      std::int64_t memory_budget, int threads, bool resume,
                      const nb::object& progress) {
  series::RowColumns columns{.features = std::move(features),
                             .time = std::move(time),
                             .time_unit = std::move(time_unit),
                             .entity = std::move(entity),
                             .entity_pattern = std::move(entity_pattern),
                             .static_columns = std::move(statics),
                             .fit_mask = std::move(fit_mask),
                             .numbers = {.decimal = std::move(decimal),
                                         .thousands = std::move(thousands),
                                         .na_values = std::move(na_values)}};
  return build(std::move(inputs), std::move(output_dir), std::move(columns), std::move(numeric),
               missing, std::move(target), scaler, scale, std::move(given_scaler),
               std::move(fit_until), duplicates, sort, std::move(freq), dtype, std::move(windows),
               memory_budget, threads, resume, progress);
}

nb::dict append_series(std::vector<FilePath> inputs, FilePath dir, std::int64_t memory_budget,
                       int threads, const nb::object& progress) {
  series::AppendOptions options;
  options.inputs = path_bytes(std::move(inputs));
  options.dir = std::move(dir.bytes);
  options.memory_budget = memory_budget;
  options.threads = threads;
  const series::AppendResult r = run_watched(progress, [&](auto report, auto stop) {
    options.progress = std::move(report);
    options.stop = std::move(stop);
    return series::append_series(options);
  });
  nb::dict out, drift;
  for (const series::FeatureDrift& d : r.drift) {
    nb::dict of;
    of["mean_shift"] = d.mean_shift;
    of["spread_ratio"] = d.spread_ratio;
    of["low"] = d.low;
    of["high"] = d.high;
    drift[nb::str(d.feature.c_str(), d.feature.size())] = of;
  }
  out["n_rows"] = r.n_rows;
  out["n_entities"] = r.n_entities;
  out["n_rows_added"] = r.n_rows_added;
  out["n_entities_added"] = r.n_entities_added;
  out["n_entities_extended"] = r.n_entities_extended;
  out["n_files"] = r.n_files;
  out["n_rows_read"] = r.n_rows_read;
  out["n_dropped"] = r.n_dropped;
  out["n_merged"] = r.n_merged;
  out["bytes"] = r.bytes;
  out["drift"] = drift;
  out["n_uploads_removed"] = r.n_uploads_removed;
  out["warnings"] = r.warnings;
  out["seconds"] = r.seconds;
  out["rows_per_second"] = r.rows_per_second;
  return out;
}

nb::list verify_series(const FilePath& path, int threads, const nb::object& progress) {
  exec::ThreadPool pool(exec::checked_thread_count(threads));
  const auto damages = run_watched(progress, [&](auto report, auto) {
    const exec::ProgressMeter clock({}, "verifying", 0);
    return series::verify_series(path.bytes, pool, [&](std::int64_t done, std::int64_t total) {
      exec::throw_if_stopped();
      const double seconds = clock.seconds();
      report({"verifying", done, total, seconds > 0 ? static_cast<double>(done) / seconds : 0});
    });
  });
  nb::list out;
  for (const series::SeriesDamage& damage : damages) {
    nb::dict entry;
    entry["file"] = as_path(damage.file);
    entry["shard"] = -1;
    entry["segment"] = -1;
    entry["begin"] = damage.begin;
    entry["end"] = damage.end;
    entry["what"] = damage.what;
    out.append(entry);
  }
  return out;
}

// Of a series directory, or of a file: its path, and what it holds.
nb::tuple scaler_text(const FilePath& given) {
  constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
  std::string path = given.bytes;
  const std::string text = call_released(!io::is_local(path), [&] {
    if (io::is_directory(path))
      path =
          io::Directory(path).path_of(series::read_metadata(path).file(series::kScalerName).name);
    return io::read_small_file(path, kMaxBytes);
  });
  return nb::make_tuple(as_path(path), nb::bytes(text.data(), text.size()));
}

}  // namespace

void bind_series(nb::module_& module) {
  module.def("default_threads", &exec::default_thread_count);
  module.def("build_series", &build_series, "inputs"_a, "output_dir"_a, "entity"_a,
             "entity_pattern"_a, "time"_a, "time_unit"_a, "features"_a, "numeric"_a, "missing"_a,
             "target"_a, "statics"_a, "scaler"_a, "scale"_a, "given_scaler"_a, "fit_until"_a,
             "fit_mask"_a, "duplicates"_a, "sort"_a, "decimal"_a, "thousands"_a, "na_values"_a,
             "freq"_a, "dtype"_a, "windows"_a, "memory_budget"_a, "threads"_a, "resume"_a,
             "progress"_a.none());
  module.def("append_series", &append_series, "inputs"_a, "path"_a, "memory_budget"_a, "threads"_a,
             "progress"_a.none());
  module.def("series_scaler_text", &scaler_text, "path"_a);
  module.def("verify_series", &verify_series, "path"_a, "threads"_a, "progress"_a.none());
}

}  // namespace cellfeed::bindings
