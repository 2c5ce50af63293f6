// cellfeed series: files of time series -> scaled rows to cut windows from; and what is in those.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/number_text.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/series_verify.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/convert/result_text.h"
#include "cellfeed/series/append.h"
#include "cellfeed/series/build.h"
#include "cellfeed/series/metadata.h"

namespace cellfeed::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BuildArguments {
  series::BuildOptions build;
  std::string scaler = "standard", scale = "global", missing = "error", duplicates = "error";
  std::string dtype = "float32";
  bool keep_order = false;
};

std::string result_text(const series::BuildOptions& options, const series::BuildResult& r) {
  std::string text = fmt::format("{} rows x {} features of {} entities, {}: {}\n",
                                 grouped(r.n_rows), grouped(r.n_features), grouped(r.n_entities),
                                 format_byte_size(r.bytes), options.output_dir);
  if (r.n_dropped > 0)
    text += fmt::format("{} rows with missing values were left out\n", grouped(r.n_dropped));
  if (r.n_merged > 0)
    text += fmt::format("{} rows of repeated times were merged or left out\n", grouped(r.n_merged));
  if (r.n_filled > 0)
    text += fmt::format("{} rows that are not there were added\n", grouped(r.n_filled));
  text += convert::removed_uploads_text(r.n_uploads_removed);
  for (const std::string& warning : r.warnings) text += "warning: " + warning + "\n";
  if (r.n_parts_resumed > 0)
    text += fmt::format("{} of {} parts were there from an earlier run\n", r.n_parts_resumed,
                        r.n_parts);
  return text + fmt::format("{} ({} rows/s)\n", duration_text(r.seconds),
                            grouped(static_cast<std::int64_t>(r.rows_per_second)));
}

int run_build(Session& session, BuildArguments& arguments) {
  series::BuildOptions& options = arguments.build;
  options.scaler = series::scaler_kind_from_name(arguments.scaler);
  options.scale = series::scale_of_from_name(arguments.scale);
  options.columns.missing = series::missing_from_name(arguments.missing);
  options.duplicates = series::duplicates_from_name(arguments.duplicates);
  options.dtype = dtype_from_name(arguments.dtype);
  options.sort = !arguments.keep_order;
  options.stop = session.stop.get_token();
  series::BuildResult r;
  {
    ProgressLine line(session.quiet, "bytes");
    options.progress = line.callback();
    r = series::build_series(options);
  }
  if (session.json)
    print(json_line({{"output_dir", options.output_dir},
                     {"n_rows", r.n_rows},
                     {"n_entities", r.n_entities},
                     {"n_features", r.n_features},
                     {"n_files", r.n_files},
                     {"n_rows_read", r.n_rows_read},
                     {"n_dropped", r.n_dropped},
                     {"n_merged", r.n_merged},
                     {"n_filled", r.n_filled},
                     {"n_parts", r.n_parts},
                     {"n_parts_resumed", r.n_parts_resumed},
                     {"bytes", r.bytes},
                     {"n_uploads_removed", r.n_uploads_removed},
                     {"warnings", r.warnings},
                     {"seconds", r.seconds},
                     {"rows_per_second", r.rows_per_second}}));
  else
    print(result_text(options, r));
  return 0;
}

void add_column_options(CLI::App& verb, series::BuildOptions& options) {
  series::RowColumns& columns = options.columns;
  verb.add_option("--entity", columns.entity,
                  "Column (or key=value folder) that names the entity of each row [default: the "
                  "name of the file]")
      ->type_name("COLUMN");
  verb.add_option("--entity-from", columns.entity_pattern,
                  "Regular expression for paths: its first group names the entity")
      ->type_name("REGEX")
      ->excludes("--entity");
  verb.add_option("--time", columns.time,
                  "Column of time, or those of year, month, day, hour, minute, second, with "
                  "commas [default: rows are counted]")
      ->delimiter(',')
      ->type_name("COLUMN");
  verb.add_option("--time-unit", columns.time_unit,
                  "Of a column of whole numbers: s, ms, us or ns since 1970")
      ->check(one_of({"s", "ms", "us", "ns"}))
      ->type_name("UNIT");
  verb.add_option("--features", columns.features,
                  "Columns to store, with commas [default: all numeric ones]")
      ->delimiter(',')
      ->type_name("COLUMN");
  verb.add_option("--numeric", options.numeric,
                  "Columns of text to store as numbers too, with commas")
      ->delimiter(',')
      ->type_name("COLUMN")
      ->excludes("--features");
  verb.add_option(
          "--static", columns.static_columns,
          "Columns of one value an entity (sector, place), with commas: kept beside the rows")
      ->delimiter(',')
      ->type_name("COLUMN");
  verb.add_option("--na-values", columns.numbers.na_values,
                  "Of text files: texts that stand for missing values, with commas, beside NA, NaN "
                  "and their like")
      ->delimiter(',')
      ->type_name("TEXT");
  verb.add_option("--decimal", columns.numbers.decimal,
                  "Of text files: the decimal point [default: .]")
      ->type_name("CHARACTER");
  verb.add_option("--thousands", columns.numbers.thousands,
                  "Of text files: the character between thousands [default: none]")
      ->type_name("CHARACTER");
  verb.add_option("--target", options.target, "Features to predict where a reader names none")
      ->delimiter(',')
      ->type_name("COLUMN");
}

void add_value_options(CLI::App& verb, BuildArguments& arguments) {
  series::BuildOptions& options = arguments.build;
  verb.add_option("--scaler", arguments.scaler,
                  "standard, minmax, robust (median and quartiles) or none [default: standard]")
      ->check(one_of({"standard", "minmax", "robust", "none"}))
      ->type_name("SCALER");
  verb.add_option("--scale", arguments.scale,
                  "global: statistics of all rows; entity: of each entity's [default: global]")
      ->check(one_of({"global", "entity"}))
      ->type_name("SCALE");
  verb.add_option("--fit-until", options.fit_until,
                  "Statistics of the rows before this time only [default: of all rows]")
      ->type_name("TIME");
  verb.add_option("--fit-mask", options.columns.fit_mask,
                  "Column of true and false: statistics of the rows that it marks only")
      ->type_name("COLUMN");
  verb.add_option("--missing", arguments.missing,
                  "Rows with missing values: error, drop, ffill (the value before) or nan "
                  "[default: error]")
      ->check(one_of({"error", "drop", "ffill", "nan"}))
      ->type_name("POLICY");
  verb.add_option("--duplicates", arguments.duplicates,
                  "Rows of one entity and time: error, first, last or mean [default: error]")
      ->check(one_of({"error", "first", "last", "mean"}))
      ->type_name("POLICY");
  verb.add_option("--freq", options.freq,
                  "Time from row to row (15min, 3h, 7D, or a number): rows that are not there are "
                  "added, with missing values")
      ->type_name("STEP");
  verb.add_flag("--keep-order", arguments.keep_order,
                "Refuse rows whose times decrease instead of sorting them");
  verb.add_option("--dtype", arguments.dtype, "float32 or float64 [default: float32]")
      ->check(one_of({"float32", "float64"}))
      ->type_name("DTYPE");
  verb.add_option("--window", options.window, "Rows of a window where a reader names none")
      ->check(whole_number(1))
      ->type_name("ROWS");
  verb.add_option("--horizon", options.horizon,
                  "Rows to predict where a reader names none [default: 1]")
      ->check(whole_number(1))
      ->type_name("ROWS");
  verb.add_option("--stride", options.stride,
                  "Rows between windows where a reader names none [default: 1]")
      ->check(whole_number(1))
      ->type_name("ROWS");
}

void add_build(CLI::App& series, Session& session) {
  auto arguments = std::make_shared<BuildArguments>();
  series::BuildOptions& options = arguments->build;
  CLI::App& verb = *series.add_subcommand(
      "build", "Scale the rows of CSV, Parquet or Arrow files and write them entity by entity");
  verb.add_option("inputs", options.inputs, "Files, globs or folders")
      ->required()
      ->type_name("INPUT");
  verb.add_option("--output-dir", options.output_dir, "Directory to write; must be new or empty")
      ->required()
      ->type_name("DIR");
  add_column_options(verb, options);
  add_value_options(verb, *arguments);
  verb.add_flag("--resume", options.resume, "Continue a build that was interrupted");
  add_resource_options(verb, options.threads, options.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_build(session, *arguments); };
  });
}

// JSON has no NaN.
Json number_or_null(double value) { return std::isnan(value) ? Json() : Json(value); }

Json append_json(const std::string& dir, const series::AppendResult& r) {
  Json json = {{"path", dir},
               {"n_rows", r.n_rows},
               {"n_entities", r.n_entities},
               {"n_rows_added", r.n_rows_added},
               {"n_entities_added", r.n_entities_added},
               {"n_entities_extended", r.n_entities_extended},
               {"n_files", r.n_files},
               {"n_rows_read", r.n_rows_read},
               {"n_dropped", r.n_dropped},
               {"n_merged", r.n_merged},
               {"bytes", r.bytes},
               {"drift", Json::object()},
               {"n_uploads_removed", r.n_uploads_removed},
               {"warnings", r.warnings},
               {"seconds", r.seconds},
               {"rows_per_second", r.rows_per_second}};
  for (const series::FeatureDrift& d : r.drift)
    json["drift"][d.feature] = {{"mean_shift", number_or_null(d.mean_shift)},
                                {"spread_ratio", number_or_null(d.spread_ratio)},
                                {"low", number_or_null(d.low)},
                                {"high", number_or_null(d.high)}};
  return json;
}

std::string append_text(const std::string& dir, const series::AppendResult& r) {
  std::string text = fmt::format(
      "{} rows appended to {} entities, {} of them new: {}\n", grouped(r.n_rows_added),
      grouped(r.n_entities_added + r.n_entities_extended), grouped(r.n_entities_added), dir);
  if (r.n_dropped > 0)
    text += fmt::format("{} rows with missing values were left out\n", grouped(r.n_dropped));
  if (r.n_merged > 0)
    text += fmt::format("{} rows of repeated times were merged or left out\n", grouped(r.n_merged));
  text += "drift       mean (in deviations)   spread (ratio)   range (old: 0 to 1)\n";
  for (const series::FeatureDrift& d : r.drift)
    text += fmt::format("  {:<16} {:>12.3f} {:>16.3f} {:>12.3f} to {:.3f}\n", d.feature,
                        d.mean_shift, d.spread_ratio, d.low, d.high);
  text += convert::removed_uploads_text(r.n_uploads_removed);
  for (const std::string& warning : r.warnings) text += "warning: " + warning + "\n";
  return text + fmt::format("{} ({} rows/s)\n", duration_text(r.seconds),
                            grouped(static_cast<std::int64_t>(r.rows_per_second)));
}

int run_append(Session& session, series::AppendOptions& options) {
  options.stop = session.stop.get_token();
  series::AppendResult r;
  {
    ProgressLine line(session.quiet, "bytes");
    options.progress = line.callback();
    r = series::append_series(options);
  }
  print(session.json ? json_line(append_json(options.dir, r)) : append_text(options.dir, r));
  return 0;
}

void add_series_append(CLI::App& series, Session& session) {
  auto options = std::make_shared<series::AppendOptions>();
  CLI::App& verb = *series.add_subcommand(
      "append", "Add the rows of more files to a series, scaled as those that are there");
  verb.add_option("dir", options->dir, "A series directory")->required()->type_name("DIR");
  verb.add_option("inputs", options->inputs, "Files, globs or folders")
      ->required()
      ->type_name("INPUT");
  add_resource_options(verb, options->threads, options->memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, options] {
    session.run = [&session, options] { return run_append(session, *options); };
  });
}

int run_series_info(Session& session, const std::string& dir) {
  const auto [m, entities] = series::read_series(dir);
  std::int64_t shortest = m.n_rows, longest = 0;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = series::kNoTime;
  for (std::int64_t e = 0; e < entities.size(); ++e) {
    const auto i = static_cast<std::size_t>(e);
    const std::int64_t n = entities.n_rows(e);
    shortest = std::min(shortest, n);
    longest = std::max(longest, n);
    if (n == 0) continue;
    first = std::min(first, entities.first_times[i]);
    last = std::max(last, entities.last_times[i]);
  }
  const std::string from = series::time_text(first, m.time_kind);
  const std::string to = series::time_text(last, m.time_kind);
  const std::string scaler(series::scaler_kind_name(m.scaler));
  const std::int64_t n_gaps = std::ssize(entities.all_gaps);
  if (session.json) {
    print(json_line({{"path", dir},
                     {"n_rows", m.n_rows},
                     {"n_entities", m.n_entities},
                     {"shortest", shortest},
                     {"longest", longest},
                     {"features", m.features},
                     {"target", m.target},
                     {"dtype", dtype_name(m.dtype)},
                     {"time", series::time_kind_name(m.time_kind)},
                     {"first_time", from},
                     {"last_time", to},
                     {"n_gaps", n_gaps},
                     {"scaler", scaler},
                     {"scale", series::scale_of_name(m.scale)},
                     {"fit_until", m.fit_until ? Json(*m.fit_until) : Json()},
                     {"fit_mask", m.fit_mask ? Json(*m.fit_mask) : Json()},
                     {"static", m.columns.static_columns},
                     {"missing", m.missing},
                     {"duplicates", m.duplicates},
                     {"n_dropped", m.n_dropped},
                     {"n_merged", m.n_merged}}));
    return 0;
  }
  std::string text =
      fmt::format("{}\n  rows        {} of {} entities, {} to {} each\n", dir, grouped(m.n_rows),
                  grouped(m.n_entities), grouped(shortest), grouped(longest));
  text += fmt::format("  features    {}: {}\n", m.features.size(), fmt::join(m.features, ", "));
  if (!m.columns.static_columns.empty())
    text += fmt::format("  static      {}\n", fmt::join(m.columns.static_columns, ", "));
  if (!m.target.empty()) text += fmt::format("  target      {}\n", fmt::join(m.target, ", "));
  text += fmt::format("  values      {}, scaler {}", dtype_name(m.dtype), scaler);
  if (m.scaler != series::ScalerKind::kNone)
    text += fmt::format(" ({}{})", series::scale_of_name(m.scale),
                        (m.fit_until ? ", of rows before " + *m.fit_until : "") +
                            (m.fit_mask ? ", of rows that '" + *m.fit_mask + "' marks" : ""));
  text +=
      fmt::format("\n  time        {} to {} ({})\n", from, to, series::time_kind_name(m.time_kind));
  if (n_gaps > 0)
    text += fmt::format(
        "  gaps        {} of more than three times the median step, which windows do not cross\n",
        grouped(n_gaps));
  text +=
      fmt::format("  policies    missing {} ({} rows left out), duplicates {} ({} rows merged)\n",
                  m.missing, grouped(m.n_dropped), m.duplicates, grouped(m.n_merged));
  print(text);
  return 0;
}

void add_series_info(CLI::App& series, Session& session) {
  auto dir = std::make_shared<std::string>();
  CLI::App& verb = *series.add_subcommand("info", "Say what a series directory holds");
  verb.add_option("dir", *dir, "A series directory")->required()->type_name("DIR");
  add_output_options(verb, session);
  verb.callback([&session, dir] {
    session.run = [&session, dir] { return run_series_info(session, *dir); };
  });
}

}  // namespace

void add_series(CLI::App& program, Session& session) {
  CLI::App& verb = *program.add_subcommand(
      "series", "Time series: build rows to cut windows from, and look at what was built");
  verb.require_subcommand(1);
  add_build(verb, session);
  add_series_append(verb, session);
  add_series_info(verb, session);
  add_series_verify(verb, session);
}

}  // namespace cellfeed::cli
