#include "cellfeed/series/append.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/series/build_directory.h"
#include "cellfeed/series/drift.h"
#include "cellfeed/series/fit.h"
#include "cellfeed/series/inputs.h"
#include "cellfeed/series/kept_folder.h"
#include "cellfeed/series/longer_checksums.h"
#include "cellfeed/series/row_writer.h"
#include "cellfeed/series/series_rows.h"

namespace cellfeed::series {
namespace {

class Append {
 public:
  explicit Append(const AppendOptions& options)
      : options_(options),
        work_(options.threads, options.memory_budget, options.progress, options.stop, options.dir) {
    require_path(options.dir);
  }

  AppendResult run();

 private:
  void open();
  void read_inputs();
  void number_entities();
  void find_statistics();
  void add_rows(std::int64_t spilled, const EntitySummary& summary);
  void refuse_old_rows(std::int64_t entity, const EntitySummary& summary) const;
  RowsBefore rows_before(std::int64_t spilled) const;
  void extend_entities();
  void write();
  SeriesFile write_checksums(const LongerFile& features, const LongerFile& times);
  SeriesFile write_scaler();
  void remove_unnamed_files() const;

  bool is_known(std::int64_t entity) const { return entity < before_->metadata().n_entities; }
  // Each entity has numbers of its own, and these have none yet.
  bool needs_fit(std::int64_t spilled) const {
    return scaler_.of == ScaleOf::kEntity && scaler_.kind != ScalerKind::kNone &&
           !is_known(numbers_[static_cast<std::size_t>(spilled)]);
  }

  const AppendOptions& options_;
  SeriesWork work_;
  io::Directory directory_;
  std::unique_ptr<io::DirectoryLock> lock_;
  std::optional<KeptFolder> kept_;  // shown while files may be longer than the metadata say
  std::shared_ptr<const SeriesRows> before_;
  std::optional<Inputs> inputs_;
  SeriesMetadata metadata_;
  EntityTable entities_;
  Scaler scaler_;
  RowPolicy policy_;
  std::optional<std::int64_t> fit_until_;
  std::int64_t fit_last_time_ = kNoTime;
  std::unique_ptr<SpilledRows> rows_;
  std::vector<std::int64_t> numbers_;  // in the directory, of each entity that was read
  // Of each entity that was read: its rows in the directory, and their times.
  struct Added {
    Extent extent;
    EntityTimes times;
  };
  std::vector<Added> added_;
  std::optional<Drift> drift_;
  bool is_kept_ = false;
  // Files were sent that are longer than the metadata say, and cannot be made shorter.
  bool is_grown_ = false;
  AppendResult result_;
};

void Append::open() {
  metadata_ = read_metadata(options_.dir);  // first, so that nothing is made elsewhere
  directory_ = io::Directory(options_.dir);
  lock_ = std::make_unique<io::DirectoryLock>(directory_);
  before_ = SeriesRows::open(options_.dir);
  metadata_ = before_->metadata();
  entities_ = before_->entities();
  remove_unnamed_files();
  const std::string path = directory_.path_of(metadata_.file(kScalerName).name);
  scaler_ = parse_scaler(io::read_small_file(path, metadata_.file(kScalerName).bytes), path);
  policy_ = {.sort = metadata_.sort,
             .duplicates = duplicates_from_name(metadata_.duplicates),
             .missing = missing_from_name(metadata_.missing),
             .kind = metadata_.time_kind,
             .freq = metadata_.freq};
  metadata_.columns.missing = policy_.missing;
  if (scaler_.fit_until)
    fit_until_ = kept_time_from_text(*scaler_.fit_until, metadata_.time_kind, "fit_until");
  if (scaler_.fit_last_time)
    fit_last_time_ =
        kept_time_from_text(*scaler_.fit_last_time, metadata_.time_kind, "fit_last_time");
  // Only entities that are new, and have a scale of their own, are fitted.
  metadata_.columns.skips_mask = scaler_.of == ScaleOf::kGlobal;
  if (is_appended_to(options_.dir)) {
    const io::UnfinishedUploads uploads = remove_unfinished_uploads(directory_);
    result_.n_uploads_removed = uploads.n_removed;
    if (!uploads.warning.empty()) result_.warnings.push_back(uploads.warning);
  }
  kept_.emplace(directory_, kAppendingFolder, "append to " + io::canonical(options_.dir));
  kept_->empty();
}

// What appends that were stopped left, and what the last one replaced.
void Append::remove_unnamed_files() const {
  io::remove_leftovers_in(directory_);
  for (const std::string& name : directory_.names()) {
    const bool is_named =
        name == kMetadataName ||
        std::ranges::any_of(metadata_.files, [&](auto& f) { return f.name == name; });
    if (is_series_file(name) && !is_named) directory_.remove(name);
  }
}

void Append::read_inputs() {
  inputs_.emplace(input_files(options_.inputs, options_.dir));
  Inputs::Rows read = inputs_->read(metadata_.columns, metadata_.has_auto_features,
                                    kept_->directory(), false, work_);
  if (read.kind != metadata_.time_kind)
    throw_error(ErrorKind::kCorruptData, inputs_->files()[0],
                "the times of these files are {} where those of the series are {}",
                time_kind_name(read.kind), time_kind_name(metadata_.time_kind));
  result_.n_files = std::ssize(inputs_->files());
  result_.n_rows_read = read.n_read;
  result_.n_dropped = read.n_dropped;
  rows_ = std::move(read.rows);
}

void Append::number_entities() {
  std::unordered_map<std::string_view, std::int64_t> known;
  for (std::int64_t e = 0; e < entities_.size(); ++e)
    known.emplace(entities_.names[static_cast<std::size_t>(e)], e);
  std::int64_t next = entities_.size();
  for (const std::string& name : rows_->entities()) {
    const auto at = known.find(name);
    numbers_.push_back(at == known.end() ? next++ : at->second);
  }
  added_.resize(numbers_.size());
  std::vector<std::string> names = entities_.names;
  for (std::size_t s = 0; s < numbers_.size(); ++s)
    if (!is_known(numbers_[s])) names.push_back(rows_->entities()[s]);
  append_statics(entities_.statics, entities_.size(), rows_->statics(), numbers_, names);
  if (policy_.missing == Missing::kError) entities_.statics.require_values(names);
}

RowsBefore Append::rows_before(std::int64_t spilled) const {
  const std::int64_t entity = numbers_[static_cast<std::size_t>(spilled)];
  if (!is_known(entity)) return {};
  RowsBefore before{.n_rows = before_->entities().n_rows(entity),
                    .last_time = before_->entities().last_times[static_cast<std::size_t>(entity)],
                    .median_step = before_->entities().steps[static_cast<std::size_t>(entity)]};
  if (before.n_rows == 0 || policy_.missing != Missing::kFfill) return before;
  const std::int64_t row = before_->stretch(entity, before.n_rows - 1).row;
  before.last = before_->stored_values(row);
  std::size_t i = scaler_.first_of(entity);
  for (double& value : before.last) {
    value = value * scaler_.scale[i] + scaler_.center[i];
    ++i;
  }
  return before;
}

void Append::refuse_old_rows(std::int64_t entity, const EntitySummary& summary) const {
  if (policy_.kind == TimeKind::kRow || !is_known(entity) || entities_.extents(entity).empty())
    return;
  const std::int64_t last = entities_.last_times[static_cast<std::size_t>(entity)];
  if (summary.first_time <= last)
    throw_invalid(
        "the rows of entity '{}' are there until {}, and a row of {} is not later: leave out what "
        "is there, or build the series again from all files",
        entities_.names[static_cast<std::size_t>(entity)], time_text(last, policy_.kind),
        time_text(summary.first_time, policy_.kind));
}

void Append::add_rows(std::int64_t spilled, const EntitySummary& summary) {
  const auto s = static_cast<std::size_t>(spilled);
  const std::int64_t entity = numbers_[s];
  result_.n_dropped += summary.counts.n_dropped;
  result_.n_merged += summary.counts.n_merged;
  const Extent extent{metadata_.n_rows, metadata_.n_rows + summary.counts.n_rows};
  metadata_.n_rows = extent.end;
  added_[s] = {extent, times_of(summary)};
  const bool has_rows = extent.end > extent.begin;
  if (has_rows) refuse_old_rows(entity, summary);
  if (is_known(entity)) {
    result_.n_entities_extended += has_rows ? 1 : 0;
    if (has_rows) drift_->add(entity, summary.columns);
    return;
  }
  ++result_.n_entities_added;
  if (needs_fit(spilled)) {
    const std::string& name = rows_->entities()[s];
    for (std::size_t f = 0; f < summary.columns.size(); ++f)
      if (summary.columns[f].n == 0)
        throw_invalid(
            "entity '{}' is new, each entity has a scale of its own, and the feature '{}' has no "
            "value in any row{} to find it by: append it with such rows, or leave it out",
            name, metadata_.features[f], scaler_.fit_until ? " before " + *scaler_.fit_until : "");
    fit_last_time_ = std::max(fit_last_time_, summary.fit_last_time);
    scaler_.entities.push_back(name);
    scaler_.add(summary.columns, summary.quartiles);
  } else if (scaler_.of == ScaleOf::kGlobal && has_rows) {
    drift_->add(entity, summary.columns);
  }
}

void Append::find_statistics() {
  drift_.emplace(scaler_);
  const FitRows fit{.rows = *rows_,
                    .policy = policy_,
                    .until = fit_until_,
                    .has_mask = metadata_.columns.reads_mask()};
  const bool is_robust = scaler_.kind == ScalerKind::kRobust;
  each_summary(
      fit,
      {.has_quartiles = [&](std::int64_t spilled) { return is_robust && needs_fit(spilled); },
       // Drift is of rows after fit_until too.
       .sees_all_rows = [&](std::int64_t spilled) { return !needs_fit(spilled); },
       .before = [&](std::int64_t spilled) { return rows_before(spilled); }},
      work_,
      [&](std::int64_t spilled, const EntitySummary& summary) { add_rows(spilled, summary); });
  if (scaler_.fit_last_time) scaler_.fit_last_time = time_text(fit_last_time_, metadata_.time_kind);
  metadata_.fit_last_time = scaler_.fit_last_time;
  result_.n_rows_added = metadata_.n_rows - before_->metadata().n_rows;
  if (result_.n_rows_added == 0)
    throw_invalid("no row is left: all {} had missing values", result_.n_rows_read);
  result_.drift = drift_->features();
  for (std::string& text : drift_warnings(result_.drift)) result_.warnings.push_back(text);
}

void Append::extend_entities() {
  std::vector<std::optional<Added>> more(static_cast<std::size_t>(entities_.size()));
  for (std::size_t s = 0; s < numbers_.size(); ++s)
    if (is_known(numbers_[s])) more[static_cast<std::size_t>(numbers_[s])] = added_[s];
  EntityTable extended;
  for (std::int64_t e = 0; e < entities_.size(); ++e) {
    const auto i = static_cast<std::size_t>(e);
    const auto there = entities_.extents(e);
    std::vector<Extent> extents(there.begin(), there.end());
    EntityTimes times = entities_.times(e);
    if (more[i] && more[i]->extent.end > more[i]->extent.begin) {
      const EntityTimes& added = more[i]->times;
      if (extents.empty()) times.first = added.first;
      times.last = added.last;
      times.step = added.step;
      times.gaps.insert(times.gaps.end(), added.gaps.begin(), added.gaps.end());
      if (!extents.empty() && extents.back().end == more[i]->extent.begin)
        extents.back().end = more[i]->extent.end;
      else
        extents.push_back(more[i]->extent);
    }
    extended.add(std::move(entities_.names[i]), times, extents);
  }
  for (std::size_t s = 0; s < numbers_.size(); ++s) {
    if (is_known(numbers_[s])) continue;
    const Added& added = added_[s];
    const bool has_rows = added.extent.end > added.extent.begin;
    extended.add(rows_->entities()[s], added.times, {&added.extent, has_rows ? 1U : 0U});
  }
  extended.statics = std::move(entities_.statics);
  entities_ = std::move(extended);
  metadata_.n_entities = entities_.size();
}

SeriesFile Append::write_checksums(const LongerFile& features, const LongerFile& times) {
  const SeriesMetadata& before = before_->metadata();
  const SeriesFile& entry = before.file(kChecksumsName);
  const std::string text = io::read_small_file(directory_.path_of(entry.name), entry.bytes);
  const std::int64_t features_before = before.file(kFeaturesName).bytes;
  const std::int64_t times_before = before.file(kTimesName).bytes;
  std::vector<std::uint64_t> old(
      static_cast<std::size_t>(n_segments(features_before) + n_segments(times_before)));
  if (text.size() != old.size() * 8 ||
      format::shard::checksum_bytes(std::as_bytes(std::span(text))) != entry.checksum)
    throw Error(ErrorKind::kCorruptData, "is damaged; build the series again",
                directory_.path_of(entry.name));
  std::memcpy(old.data(), text.data(), text.size());
  const auto n_of_features = static_cast<std::size_t>(n_segments(features_before));
  std::vector<std::uint64_t> checksums =
      longer_checksums(features, features_before, std::span(old).first(n_of_features), work_);
  const std::vector<std::uint64_t> of_times =
      longer_checksums(times, times_before, std::span(old).subspan(n_of_features), work_);
  checksums.insert(checksums.end(), of_times.begin(), of_times.end());
  const auto bytes = std::as_bytes(std::span(checksums));
  return write_checked_file(directory_, name_after_appends(kChecksumsName, metadata_.n_appends),
                            {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Where entities were added to a scaler that has numbers of each.
SeriesFile Append::write_scaler() {
  if (scaler_.of == ScaleOf::kGlobal || result_.n_entities_added == 0)
    return before_->metadata().file(kScalerName);
  return write_checked_file(directory_, name_after_appends(kScalerName, metadata_.n_appends),
                            scaler_json(scaler_));
}

void Append::write() {
  const SeriesMetadata& before = before_->metadata();
  work_.begin_phase("writing", result_.n_rows_added * before_->row_bytes());
  LongerFile features(directory_, kFeaturesName, before.file(kFeaturesName).bytes,
                      metadata_.n_rows * before_->row_bytes());
  LongerFile times(directory_, kTimesName, before.file(kTimesName).bytes, metadata_.n_rows * 8);
  const RowWriter writer(*rows_, policy_, scaler_, metadata_.dtype, features, times);
  work_.pool().parallel_for(std::ssize(numbers_), [&](std::int64_t spilled) {
    const auto s = static_cast<std::size_t>(spilled);
    const Extent& extent = added_[s].extent;
    if (extent.end > extent.begin) {
      const EntityToWrite entity{spilled, numbers_[s], rows_before(spilled)};
      writer.write({&entity, 1}, extent.begin, extent.end - extent.begin, work_.share());
    }
    work_.advance((extent.end - extent.begin) * before_->row_bytes());
  });
  extend_entities();
  metadata_.n_appends = before.n_appends + 1;
  metadata_.n_files += result_.n_files;
  metadata_.n_rows_read += result_.n_rows_read;
  metadata_.n_dropped += result_.n_dropped;
  metadata_.n_merged += result_.n_merged;
  metadata_.plan = plan_fingerprint(fmt::format("{:016x}\n{}", before.plan, inputs_->plan()));
  metadata_.files = {{kFeaturesName, features.size(), 0},
                     {kTimesName, times.size(), 0},
                     write_checksums(features, times),
                     write_entities(directory_, entities_, metadata_.n_appends),
                     write_scaler()};
  work_.check_stop();
  is_grown_ = !directory_.is_local();
  features.sync();
  times.sync();
  work_.check_stop();
  // From here on the metadata may name the new rows, whatever fails: it is ended in any case.
  is_kept_ = true;
  const exec::StopScope in_any_case({});
  features.keep();
  times.keep();
  write_metadata(directory_, metadata_, entities_);
}

AppendResult Append::run() {
  const exec::ProgressMeter clock({}, "", 0);
  open();
  try {
    read_inputs();
    number_entities();
    find_statistics();
    write();
  } catch (...) {
    const exec::StopScope in_any_case({});  // what is left then is removed by the next append
    if (!is_kept_) {
      metadata_ = before_->metadata();
      remove_unnamed_files();
      is_grown_ ? kept_->remove_kept() : kept_->remove();
    }
    throw;
  }
  const exec::StopScope in_any_case({});
  remove_rest(result_.warnings, "append", [&] {
    remove_unnamed_files();
    kept_->remove();
  });
  result_.n_rows = metadata_.n_rows;
  result_.n_entities = metadata_.n_entities;
  for (const SeriesFile& file : metadata_.files) result_.bytes += file.bytes;
  result_.bytes += directory_.file_bytes(kMetadataName).value_or(0);
  result_.seconds = clock.seconds();
  result_.rows_per_second =
      result_.seconds > 0 ? static_cast<double>(result_.n_rows_added) / result_.seconds : 0;
  return std::move(result_);
}

}  // namespace

AppendResult append_series(const AppendOptions& options) { return Append(options).run(); }

}  // namespace cellfeed::series
