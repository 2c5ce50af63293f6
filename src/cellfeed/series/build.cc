#include "cellfeed/series/build.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/series/build_directory.h"
#include "cellfeed/series/build_options.h"
#include "cellfeed/series/feature_columns.h"
#include "cellfeed/series/fit.h"
#include "cellfeed/series/inputs.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/row_writer.h"

namespace cellfeed::series {
namespace {

class Build {
 public:
  explicit Build(const BuildOptions& options)
      : options_(options),
        columns_(options.columns),
        work_(options.threads, options.memory_budget, options.progress, options.stop,
              options.output_dir),
        inputs_(input_files(options.inputs, options.output_dir)) {}

  BuildResult run();

 private:
  void find_features();
  void choose_features();
  std::string plan() const;
  void read_inputs(const BuildDirectory& target);
  void find_statistics();
  void keep_statistics(std::int64_t entity, const std::vector<ColumnStatistics>& columns,
                       std::span<const double> quartiles);
  void refuse_empty_columns(const std::vector<ColumnStatistics>& columns, const std::string& of);
  void write(const BuildDirectory& target);
  SeriesFile write_checksums(const io::Directory& directory, const PlacedFile& features,
                             const PlacedFile& times);
  SeriesMetadata metadata() const;
  void warn_constant(std::int64_t entity, std::span<const std::size_t> features);
  void remember_bytes(const BuildDirectory& target);

  const std::vector<std::string>& entity_names() const { return rows_->entities(); }
  std::int64_t n_entities() const { return std::ssize(entity_names()); }

  const BuildOptions& options_;
  RowColumns columns_;
  bool has_auto_features_ = false;
  SeriesWork work_;
  const Inputs inputs_;

  std::unique_ptr<SpilledRows> rows_;
  RowPolicy policy_;
  std::optional<std::int64_t> fit_until_;
  EntityTable entities_;
  Scaler scaler_;
  std::vector<std::string> constant_;
  std::int64_t n_constant_ = 0;
  BuildResult result_;
};

void Build::find_features() {
  const std::string& path = inputs_.files()[0];
  const auto table = open_table(path, decode_bytes(work_), columns_.numbers);
  columns_.features = numeric_features(*table, columns_, options_.numeric, result_.warnings);
  const std::vector<std::string> names = numbers_in_texts(*table, columns_);
  if (names.empty()) return;
  result_.left_out = fmt::format(
      "columns of text that hold numbers are left out: '{}'; name those to store as numeric, or "
      "name all features ({})",
      fmt::join(names, "', '"), path);
  result_.warnings.push_back(result_.left_out);
}

void Build::choose_features() {
  has_auto_features_ = columns_.features.empty();
  if (has_auto_features_) find_features();
  for (const std::string& name : options_.target)
    if (std::ranges::find(columns_.features, name) == columns_.features.end()) {
      // Why it is none was found before.
      const auto doubt = std::ranges::find_if(result_.warnings, [&](const std::string& text) {
        return text.find(fmt::format("'{}'", name)) != std::string::npos;
      });
      if (has_auto_features_)
        throw_invalid(
            "the target '{}' is no feature{}", name,
            doubt == result_.warnings.end() ? suggestion(name, columns_.features) : "; " + *doubt);
      columns_.features.push_back(name);
    }
  std::vector<std::string> sorted = columns_.features;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw_invalid("the feature '{}' is named twice", *twice);
  result_.n_features = static_cast<std::int64_t>(columns_.features.size());
}

std::string Build::plan() const {
  return fmt::format(
      "cellfeed-series 4\nfeatures: {}\ntarget: {}\ntime: {} {}\nentity: {} {}\nscaler: {} {}\n"
      "fit_until: {}\nfit_mask: {}\nstatic: {}\nnumbers: {}\nmissing: {}\nduplicates: {}\nsort: {} "
      "{}\ndtype: "
      "{}\nwindow: {} {} {}\n"
      "given scaler: {}\n{}",
      fmt::join(columns_.features, ", "), fmt::join(options_.target, ", "),
      fmt::join(columns_.time, ", "), columns_.time_unit, columns_.entity, columns_.entity_pattern,
      scaler_kind_name(options_.scaler), scale_of_name(options_.scale), options_.fit_until,
      columns_.fit_mask, fmt::join(columns_.static_columns, ", "), text_of(columns_.numbers),
      missing_name(columns_.missing), duplicates_name(options_.duplicates), options_.sort,
      options_.freq, dtype_name(options_.dtype), options_.window, options_.horizon, options_.stride,
      format::shard::checksum_bytes(std::as_bytes(std::span(options_.given_scaler))),
      inputs_.plan());
}

void Build::read_inputs(const BuildDirectory& target) {
  Inputs::Rows read =
      inputs_.read(columns_, has_auto_features_, target.parts(), options_.resume, work_);
  result_.n_parts = inputs_.n_parts();
  result_.n_parts_resumed = read.n_parts_resumed;
  result_.n_rows_read = read.n_read;
  result_.n_dropped = read.n_dropped;
  rows_ = std::move(read.rows);
  policy_ = {.sort = options_.sort,
             .duplicates = options_.duplicates,
             .missing = columns_.missing,
             .kind = read.kind,
             .freq = options_.freq.empty() ? 0 : step_from_text(options_.freq, read.kind, "freq")};
  if (!options_.fit_until.empty())
    fit_until_ = time_from_text(options_.fit_until, read.kind, "fit_until");
}

void Build::refuse_empty_columns(const std::vector<ColumnStatistics>& columns,
                                 const std::string& of) {
  std::string where, instead;
  if (!options_.fit_until.empty()) {
    where = " before " + options_.fit_until;
    instead = ", or fit until later";
  }
  if (!columns_.fit_mask.empty()) {
    where += " that '" + columns_.fit_mask + "' marks";
    instead += ", or mark more rows";
  }
  for (std::size_t f = 0; f < columns.size(); ++f)
    if (columns[f].n == 0)
      throw_invalid("{}: the feature '{}' has no value in any row{}; leave it out{}", of,
                    columns_.features[f], where, instead);
}

// Of the rows that the scaler looks at.
void Build::find_statistics() {
  const bool is_given = !options_.given_scaler.empty();
  const bool is_robust = options_.scaler == ScalerKind::kRobust && !is_given;
  const bool is_of_entity = options_.scale == ScaleOf::kEntity && !is_given;
  scaler_.kind = options_.scaler;
  scaler_.of = options_.scale;
  scaler_.features = columns_.features;
  if (is_of_entity) scaler_.entities = entity_names();
  if (fit_until_) scaler_.fit_until = time_text(*fit_until_, policy_.kind);
  if (!columns_.fit_mask.empty()) scaler_.fit_mask = columns_.fit_mask;
  entities_.statics = rows_->statics();
  if (columns_.missing == Missing::kError) entities_.statics.require_values(entity_names());
  const FitRows fit{
      .rows = *rows_, .policy = policy_, .until = fit_until_, .has_mask = columns_.reads_mask()};
  std::int64_t fit_last_time = kNoTime;
  std::vector<ColumnStatistics> all(columns_.features.size());
  std::int64_t end = 0;
  const auto keep = [&](std::int64_t entity, const EntitySummary& summary) {
    const Extent extent{end, end + summary.counts.n_rows};
    end = extent.end;
    entities_.add(entity_names()[static_cast<std::size_t>(entity)], times_of(summary),
                  {&extent, summary.counts.n_rows > 0 ? 1U : 0U});
    result_.n_dropped += summary.counts.n_dropped;
    result_.n_merged += summary.counts.n_merged;
    result_.n_filled += summary.counts.n_filled;
    fit_last_time = std::max(fit_last_time, summary.fit_last_time);
    for (std::size_t c = 0; c < all.size(); ++c) all[c].merge(summary.columns[c]);
    if (is_of_entity) keep_statistics(entity, summary.columns, summary.quartiles);
  };
  const auto has_quartiles = [&](std::int64_t) { return is_robust && is_of_entity; };
  each_summary(fit, {has_quartiles, {}, {}}, work_, keep);
  if (end == 0) throw_invalid("no row is left: all {} had missing values", result_.n_rows_read);
  result_.n_rows = end;
  if (policy_.kind != TimeKind::kRow && fit_last_time != kNoTime)
    scaler_.fit_last_time = time_text(fit_last_time, policy_.kind);
  refuse_empty_columns(all, "all files");
  if (is_given)
    scaler_ = scaler_for(parse_scaler(options_.given_scaler, "the scaler that was given"),
                         columns_.features, entity_names());
  else if (!is_of_entity)
    keep_statistics(-1, all, is_robust ? global_quartiles(fit, work_) : std::vector<double>());
}

void Build::keep_statistics(std::int64_t entity, const std::vector<ColumnStatistics>& columns,
                            std::span<const double> quartiles) {
  if (entity >= 0)
    refuse_empty_columns(columns,
                         "entity '" + entity_names()[static_cast<std::size_t>(entity)] + "'");
  warn_constant(entity, scaler_.add(columns, quartiles));
}

void Build::warn_constant(std::int64_t entity, std::span<const std::size_t> features) {
  constexpr std::size_t kShown = 5;
  for (const std::size_t f : features) {
    ++n_constant_;
    if (constant_.size() == kShown) continue;
    constant_.push_back(columns_.features[f]);
    if (entity >= 0) constant_.back() += " of " + entity_names()[static_cast<std::size_t>(entity)];
  }
}

SeriesFile Build::write_checksums(const io::Directory& directory, const PlacedFile& features,
                                  const PlacedFile& times) {
  const std::int64_t n = n_segments(features.size());
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(n + n_segments(times.size())));
  work_.pool().parallel_for(std::ssize(checksums), [&](std::int64_t i) {
    checksums[static_cast<std::size_t>(i)] =
        i < n ? features.segment_checksum(i) : times.segment_checksum(i - n);
    work_.check_stop();
  });
  const auto bytes = std::as_bytes(std::span(checksums));
  return write_checked_file(directory, kChecksumsName,
                            {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

SeriesMetadata Build::metadata() const {
  return {.features = columns_.features,
          .target = options_.target,
          .dtype = options_.dtype,
          .time_kind = policy_.kind,
          .n_rows = result_.n_rows,
          .n_entities = n_entities(),
          .scaler = scaler_.kind,
          .scale = scaler_.of,
          .fit_until = scaler_.fit_until,
          .fit_mask = scaler_.fit_mask,
          .fit_last_time = scaler_.fit_last_time,
          .missing = std::string(missing_name(columns_.missing)),
          .duplicates = std::string(duplicates_name(options_.duplicates)),
          .sort = options_.sort,
          .freq = policy_.freq,
          .window = options_.window,
          .horizon = options_.horizon,
          .stride = options_.stride,
          .n_files = result_.n_files,
          .n_rows_read = result_.n_rows_read,
          .n_dropped = result_.n_dropped,
          .n_merged = result_.n_merged,
          .columns = columns_,
          .has_auto_features = has_auto_features_,
          .built = plan_fingerprint(plan()),
          .plan = plan_fingerprint(plan()),
          .files = {}};
}

void Build::write(const BuildDirectory& target) {
  const io::Directory& directory = target.directory();
  const std::int64_t width =
      result_.n_features * static_cast<std::int64_t>(dtype_bytes(options_.dtype));
  work_.begin_phase("writing", result_.n_rows * width);
  // Of a build that was interrupted between its last steps.
  directory.remove(kFeaturesName);
  directory.remove(kTimesName);
  PlacedFile features({directory, kFeaturesName}, result_.n_rows * width);
  PlacedFile times({directory, kTimesName}, result_.n_rows * 8);
  const RowWriter writer(*rows_, policy_, scaler_, options_.dtype, features, times);
  const auto done = [&](std::int64_t e) { work_.advance(entities_.n_rows(e) * width); };
  const std::vector<std::int64_t> ends = write_groups(entities_, width, work_.n_threads());
  work_.pool().parallel_for(std::ssize(ends), [&](std::int64_t group) {
    std::vector<EntityToWrite> some;
    std::int64_t first_row = 0, n_rows = 0;
    const auto g = static_cast<std::size_t>(group);
    for (std::int64_t e = g == 0 ? 0 : ends[g - 1]; e < ends[g]; ++e) {
      if (entities_.extents(e).empty()) continue;
      if (some.empty()) first_row = entities_.extents(e)[0].begin;
      some.push_back({.entity = e, .scaler_entity = e});
      n_rows += entities_.n_rows(e);
    }
    writer.write(some, first_row, n_rows, work_.share(), done);
  });
  SeriesMetadata written = metadata();
  written.files = {{kFeaturesName, features.size(), 0},
                   {kTimesName, times.size(), 0},
                   write_checksums(directory, features, times),
                   write_entities(directory, entities_, 0),
                   write_checked_file(directory, kScalerName, scaler_json(scaler_))};
  features.commit();
  times.commit();
  write_metadata(directory, written, entities_);
}

void Build::remember_bytes(const BuildDirectory& target) {
  for (const std::string& name : target.directory().names())
    if (is_series_file(name)) result_.bytes += target.directory().file_bytes(name).value_or(0);
}

BuildResult Build::run() {
  const exec::ProgressMeter clock({}, "", 0);
  check_build_options(options_);
  result_.n_files = std::ssize(inputs_.files());
  choose_features();
  BuildDirectory target(options_.output_dir, plan(), options_.resume);
  result_.n_uploads_removed = target.unfinished_uploads().n_removed;
  if (const std::string& warning = target.unfinished_uploads().warning; !warning.empty())
    result_.warnings.push_back(warning);
  if (target.is_finished()) {  // stopped between its last two steps
    const SeriesMetadata metadata = read_metadata(options_.output_dir);
    result_.n_rows = metadata.n_rows;
    result_.n_entities = metadata.n_entities;
    result_.n_rows_read = metadata.n_rows_read;
    result_.n_dropped = metadata.n_dropped;
    result_.n_merged = metadata.n_merged;
    result_.n_parts = result_.n_parts_resumed = inputs_.n_parts();
  } else {
    try {
      read_inputs(target);
      find_statistics();
      write(target);
    } catch (const Error& error) {
      // What a stop or a full disk interrupted can go on; inputs that are wrong cannot.
      const bool can_go_on = error.kind() == ErrorKind::kCancelled ||
                             error.kind() == ErrorKind::kNoSpace || error.kind() == ErrorKind::kIo;
      if (!can_go_on) target.remove_parts();
      throw;
    }
    result_.n_entities = n_entities();
  }
  remove_rest(result_.warnings, "build with resume", [&] { target.remove_parts(); });
  remember_bytes(target);
  if (n_constant_ > 0 && scaler_.kind != ScalerKind::kNone && options_.given_scaler.empty())
    result_.warnings.push_back(
        fmt::format("{}, so that their scale is 1: {}{}",
                    scaler_.kind == ScalerKind::kRobust
                        ? "the quartiles are the same, as of values of which most are"
                        : "all values are the same",
                    fmt::join(constant_, ", "),
                    n_constant_ > std::ssize(constant_)
                        ? fmt::format(" and {} more", n_constant_ - std::ssize(constant_))
                        : ""));
  result_.seconds = clock.seconds();
  result_.rows_per_second =
      result_.seconds > 0 ? static_cast<double>(result_.n_rows) / result_.seconds : 0;
  return std::move(result_);
}

}  // namespace

BuildResult build_series(const BuildOptions& options) { return Build(options).run(); }

}  // namespace cellfeed::series
