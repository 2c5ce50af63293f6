#include "cellfeed/series/build.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/series/build_directory.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/placed_file.h"

namespace cellfeed::series {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMissingNames[] = {"error", "drop", "ffill", "nan"};
constexpr const char* kDuplicatesNames[] = {"error", "first", "last", "mean"};
// What decoding a file may take where the share of the budget is less: a page of every column.
constexpr std::int64_t kDecodeBytes = std::int64_t{64} << 20;
// Of a block of rows being read, to begin with; and the rows of a run that is long enough.
constexpr std::int64_t kBlockBytes = std::int64_t{2} << 20;
constexpr std::int64_t kLongRun = 64;
constexpr double kQuartiles[] = {0.25, 0.5, 0.75};
// Entities whose statistics are merged at a time.
constexpr std::int64_t kEntitiesTogether = 4096;

// Files that one thread reads one after another, and that share a part.
struct InputGroup {
  std::vector<std::size_t> files;
  std::int64_t bytes = 0;
};

class Build {
 public:
  explicit Build(const BuildOptions& options)
      : options_(options),
        columns_(options.columns),
        n_threads_(exec::checked_thread_count(options.threads)),
        pool_(n_threads_) {}

  BuildResult run();

 private:
  void check_options();
  void choose_features();
  void find_groups();
  std::string plan() const;
  void read_inputs(BuildDirectory& target);
  SpilledPart read_group(const InputGroup& group, io::FileTarget target);
  void find_kind(const std::vector<SpilledPart>& parts);
  void begin_scaler(ScalerKind kind, ScaleOf of);
  void find_statistics();
  void keep_statistics(std::int64_t entity, const std::vector<ColumnStatistics>& columns,
                       std::span<const double> quartiles);
  std::vector<double> quartiles_of(std::int64_t entity,
                                   const std::vector<ColumnStatistics>& columns);
  std::vector<double> global_quartiles();
  void refuse_empty_columns(const std::vector<ColumnStatistics>& columns, const std::string& of);
  void take_given_scaler();
  void write(BuildDirectory& target);
  void write_entity(std::int64_t entity, PlacedFile& features, PlacedFile& times);
  SeriesFile write_checksums(const io::Directory& directory, const PlacedFile& features,
                             const PlacedFile& times);
  void warn_constant(std::int64_t entity, std::span<const std::size_t> features);
  void remember_bytes(BuildDirectory& target);

  RowCounts each(std::int64_t entity, const RowSink& sink) const {
    return each_row(*rows_, entity, policy_, share(), sink);
  }
  std::int64_t share() const { return options_.memory_budget / (2 * n_threads_); }
  std::int64_t n_entities() const { return static_cast<std::int64_t>(rows_->entities().size()); }
  void begin_phase(std::string_view phase, std::int64_t total) {
    meter_.emplace(options_.progress, phase, total);
  }
  void check_stop() const {
    if (options_.stop.stop_requested())
      throw Error(ErrorKind::kCancelled, "stopped before the end", options_.output_dir);
  }
  void advance(std::int64_t amount) {
    check_stop();
    const std::lock_guard lock(meter_mutex_);
    meter_->advance(amount);
  }

  const BuildOptions& options_;
  RowColumns columns_;
  bool has_auto_features_ = false;
  const int n_threads_;
  exec::ThreadPool pool_;
  std::mutex meter_mutex_;
  std::optional<exec::ProgressMeter> meter_;  // guarded by meter_mutex_
  std::vector<std::string> files_;
  std::vector<InputGroup> groups_;
  std::int64_t input_bytes_ = 0;

  std::unique_ptr<SpilledRows> rows_;
  RowPolicy policy_;
  std::int64_t fit_until_ = std::numeric_limits<std::int64_t>::max();
  EntityTable entities_;
  Scaler scaler_;
  std::vector<std::string> constant_;
  std::int64_t n_constant_ = 0;
  BuildResult result_;
};

void Build::check_options() {
  exec::check_memory_budget(options_.memory_budget);
  if (columns_.time.size() > 6)
    throw_invalid(
        "time takes one column, or those of year, month, day, hour, minute, second, not "
        "{} columns",
        columns_.time.size());
  if (!columns_.time_unit.empty()) {
    nanoseconds_of_unit(columns_.time_unit);
    if (columns_.time.size() != 1) throw_invalid("time_unit needs one column of time");
  }
  if (!columns_.entity.empty() && !columns_.entity_pattern.empty())
    throw_invalid("entity is a column or a pattern, not both");
  if (!is_float(options_.dtype))
    throw_invalid("dtype must be float32 or float64, not {}", dtype_name(options_.dtype));
  if (options_.window < 0 || options_.horizon < 1 || options_.stride < 1)
    throw_invalid("window, horizon and stride must be at least 1");
  if (options_.scaler == ScalerKind::kNone && options_.given_scaler.empty() &&
      (options_.scale == ScaleOf::kEntity || !options_.fit_until.empty()))
    throw_invalid("scale and fit_until need a scaler");
  if (!options_.given_scaler.empty() && !options_.fit_until.empty())
    throw_invalid("fit_until is of a scaler that is fitted, and one was given");
  if (columns_.time.empty() && !options_.fit_until.empty())
    throw_invalid("fit_until needs a column of time");
}

void Build::choose_features() {
  has_auto_features_ = columns_.features.empty();
  if (has_auto_features_)
    columns_.features = numeric_features(files_[0], columns_, std::max(share(), kDecodeBytes));
  for (const std::string& name : options_.target)
    if (std::ranges::find(columns_.features, name) == columns_.features.end()) {
      if (has_auto_features_)
        throw_invalid("the target '{}' is no feature{}", name, suggestion(name, columns_.features));
      columns_.features.push_back(name);
    }
  std::vector<std::string> sorted = columns_.features;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw_invalid("the feature '{}' is named twice", *twice);
  result_.n_features = static_cast<std::int64_t>(columns_.features.size());
}

void Build::find_groups() {
  std::vector<std::int64_t> sizes;
  for (const std::string& path : files_) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) throw_errno(error.value(), path, "look at this file");
    sizes.push_back(static_cast<std::int64_t>(size));
    input_bytes_ += sizes.back();
  }
  // Groups do not depend on the threads: an interrupted build may go on with another number.
  const std::int64_t enough =
      std::clamp(input_bytes_ / 64, std::int64_t{1} << 18, std::int64_t{64} << 20);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (groups_.empty() || groups_.back().bytes >= enough) groups_.emplace_back();
    groups_.back().files.push_back(i);
    groups_.back().bytes += sizes[i];
  }
}

std::string Build::plan() const {
  std::string text = fmt::format(
      "cellfeed-series 1\nfeatures: {}\ntarget: {}\ntime: {} {}\nentity: {} {}\nscaler: {} {}\n"
      "fit_until: {}\nmissing: {}\nduplicates: {}\nsort: {}\ndtype: {}\nwindow: {} {} {}\n"
      "given scaler: {}\n",
      fmt::join(columns_.features, ", "), fmt::join(options_.target, ", "),
      fmt::join(columns_.time, ", "), columns_.time_unit, columns_.entity, columns_.entity_pattern,
      scaler_kind_name(options_.scaler), scale_of_name(options_.scale), options_.fit_until,
      kMissingNames[static_cast<int>(columns_.missing)],
      kDuplicatesNames[static_cast<int>(options_.duplicates)], options_.sort,
      dtype_name(options_.dtype), options_.window, options_.horizon, options_.stride,
      format::shard::checksum_bytes(std::as_bytes(std::span(options_.given_scaler))));
  for (const std::string& path : files_) {
    std::error_code error;
    const auto changed = fs::last_write_time(path, error).time_since_epoch().count();
    text +=
        fmt::format("{} {} {}\n", fs::absolute(path).string(), fs::file_size(path, error), changed);
  }
  return text;
}

SpilledPart Build::read_group(const InputGroup& group, io::FileTarget target) {
  SpillWriter writer(std::move(target), columns_.features.size());
  const std::int64_t width = record_bytes(columns_.features.size());
  // A block is there as it is read, in the order of entities, and in columns.
  const std::int64_t most_rows =
      std::clamp<std::int64_t>(share() / (4 * width), 1024, std::int64_t{1} << 20);
  // Small ones stay in caches; where entities alternate, large ones make fewer and longer runs.
  std::int64_t block_rows = std::min(most_rows, std::max<std::int64_t>(1024, kBlockBytes / width));
  RowBlock block;
  for (const std::size_t file : group.files) {
    RowSource source(files_[file], columns_, has_auto_features_, std::max(share(), kDecodeBytes));
    bool is_at_end = false;
    while (!is_at_end) {
      block.clear();
      while (block.n_rows() < block_rows && !is_at_end)
        is_at_end = !source.next(std::min<std::int64_t>(block_rows - block.n_rows(), 16384), block);
      writer.add(block, source.entities());
      if (std::ssize(source.entities()) * kLongRun > block_rows)
        block_rows = std::min(most_rows, 2 * block_rows);
      check_stop();
    }
    writer.end_file(source);
    std::error_code error;
    advance(static_cast<std::int64_t>(fs::file_size(files_[file], error)));
  }
  return writer.commit();
}

void Build::read_inputs(BuildDirectory& target) {
  begin_phase("reading", input_bytes_);
  std::vector<SpilledPart> parts(groups_.size());
  std::vector<std::string> paths;
  std::atomic<std::int64_t> n_resumed{0};
  for (std::size_t p = 0; p < groups_.size(); ++p) paths.push_back(target.part_path(p));
  pool_.parallel_for(static_cast<std::int64_t>(groups_.size()), [&](std::int64_t i) {
    const auto p = static_cast<std::size_t>(i);
    if (options_.resume) {
      if (auto part = read_spilled_part(paths[p], columns_.features.size())) {
        parts[p] = std::move(*part);
        ++n_resumed;
        return advance(groups_[p].bytes);
      }
    }
    parts[p] = read_group(groups_[p], target.part_target(p));
  });
  result_.n_parts = static_cast<std::int64_t>(parts.size());
  result_.n_parts_resumed = n_resumed;
  std::int64_t n_runs = 0;
  for (const SpilledPart& part : parts) {
    result_.n_rows_read += part.n_read;
    result_.n_dropped += part.n_dropped;
    n_runs += static_cast<std::int64_t>(part.runs.size());
  }
  if (n_runs * static_cast<std::int64_t>(sizeof(SpilledRows::Piece)) > options_.memory_budget / 2)
    throw_invalid(
        "rows of many entities alternate so often that to list their places takes {}, "
        "more than half of the memory budget: raise it, or sort the files by entity",
        format_byte_size(n_runs * static_cast<std::int64_t>(sizeof(SpilledRows::Piece))));
  find_kind(parts);
  rows_ = std::make_unique<SpilledRows>(std::move(parts), paths, columns_.features.size());
}

void Build::find_kind(const std::vector<SpilledPart>& parts) {
  std::optional<TimeKind> kind;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (!parts[p].kind) continue;
    if (kind && *kind != *parts[p].kind)
      throw_error(ErrorKind::kCorruptData, files_[groups_[p].files[0]],
                  "its times, or those of a file after it, are {} where those of the files before "
                  "it are {}",
                  time_kind_name(*parts[p].kind), time_kind_name(*kind));
    kind = parts[p].kind;
  }
  if (!kind) throw Error(ErrorKind::kCorruptData, "the inputs hold no rows", files_[0]);
  policy_ = {.sort = options_.sort,
             .duplicates = options_.duplicates,
             .missing = columns_.missing,
             .kind = *kind};
  if (!options_.fit_until.empty())
    fit_until_ = time_from_text(options_.fit_until, *kind, "fit_until");
}

void Build::refuse_empty_columns(const std::vector<ColumnStatistics>& columns,
                                 const std::string& of) {
  for (std::size_t f = 0; f < columns.size(); ++f)
    if (columns[f].n == 0)
      throw_invalid("{}: the feature '{}' has no value in any row{}; leave it out{}", of,
                    columns_.features[f],
                    options_.fit_until.empty() ? "" : " before " + options_.fit_until,
                    options_.fit_until.empty() ? "" : ", or fit until later");
}

// One without numbers yet.
void Build::begin_scaler(ScalerKind kind, ScaleOf of) {
  scaler_ = {};
  scaler_.kind = kind;
  scaler_.of = of;
  scaler_.features = columns_.features;
  if (of == ScaleOf::kEntity) scaler_.entities = rows_->entities();
}

// Of the rows that the scaler looks at.
void Build::find_statistics() {
  const std::size_t n_features = columns_.features.size();
  begin_scaler(options_.scaler, options_.scale);
  if (!options_.fit_until.empty()) scaler_.fit_until = time_text(fit_until_, policy_.kind);
  std::int64_t total = 0;
  for (std::int64_t e = 0; e < n_entities(); ++e) total += rows_->n_rows(e);
  begin_phase("finding statistics", total * record_bytes(n_features));
  std::vector<ColumnStatistics> all(n_features);
  std::int64_t end = 0;
  for (std::int64_t begin = 0; begin < n_entities(); begin += kEntitiesTogether) {
    const std::int64_t n = std::min(kEntitiesTogether, n_entities() - begin);
    struct Found {
      RowCounts counts;
      std::int64_t first = 0, last = 0;
      std::vector<ColumnStatistics> columns;
      std::vector<double> quartiles;
    };
    std::vector<Found> found(static_cast<std::size_t>(n));
    pool_.parallel_for(n, [&](std::int64_t i) {
      Found& f = found[static_cast<std::size_t>(i)];
      RowStatistics statistics(n_features);
      bool is_first = true;
      f.counts = each(begin + i, [&](std::int64_t time, const double* row) {
        if (time < fit_until_) statistics.add(row);
        if (is_first) f.first = time;
        is_first = false;
        f.last = time;
      });
      f.columns = statistics.finish();
      if (options_.scaler == ScalerKind::kRobust && options_.scale == ScaleOf::kEntity)
        f.quartiles = quartiles_of(begin + i, f.columns);
      advance(rows_->n_rows(begin + i) * record_bytes(n_features));
    });
    for (std::int64_t i = 0; i < n; ++i) {
      const Found& f = found[static_cast<std::size_t>(i)];
      end += f.counts.n_rows;
      entities_.ends.push_back(end);
      entities_.first_times.push_back(f.first);
      entities_.last_times.push_back(f.last);
      result_.n_dropped += f.counts.n_dropped;
      result_.n_merged += f.counts.n_merged;
      for (std::size_t c = 0; c < n_features; ++c) all[c].merge(f.columns[c]);
      if (options_.scale == ScaleOf::kEntity && options_.given_scaler.empty())
        keep_statistics(begin + i, f.columns, f.quartiles);
    }
  }
  if (end == 0) throw_invalid("no row is left: all {} had missing values", result_.n_rows_read);
  result_.n_rows = end;
  refuse_empty_columns(all, "all files");
  if (options_.scale == ScaleOf::kGlobal)
    keep_statistics(
        -1, all,
        options_.scaler == ScalerKind::kRobust ? global_quartiles() : std::vector<double>());
}

void Build::keep_statistics(std::int64_t entity, const std::vector<ColumnStatistics>& columns,
                            std::span<const double> quartiles) {
  if (entity >= 0)
    refuse_empty_columns(columns,
                         "entity '" + rows_->entities()[static_cast<std::size_t>(entity)] + "'");
  warn_constant(entity, scaler_.add(columns, quartiles));
}

void Build::warn_constant(std::int64_t entity, std::span<const std::size_t> features) {
  constexpr std::size_t kShown = 5;
  for (const std::size_t f : features) {
    ++n_constant_;
    if (constant_.size() == kShown) continue;
    constant_.push_back(columns_.features[f]);
    if (entity >= 0)
      constant_.back() += " of " + rows_->entities()[static_cast<std::size_t>(entity)];
  }
}

std::vector<double> Build::quartiles_of(std::int64_t entity,
                                        const std::vector<ColumnStatistics>& columns) {
  const std::int64_t n_rows = rows_->n_rows(entity);
  if (n_rows * 8 > share())
    throw_invalid(
        "the quartiles of entity '{}' take {}, more than the memory budget leaves: raise "
        "it",
        rows_->entities()[static_cast<std::size_t>(entity)], format_byte_size(n_rows * 8));
  std::vector<double> quartiles(columns.size() * 3, NAN), values;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].n == 0) continue;
    values.clear();
    each(entity, [&](std::int64_t time, const double* row) {
      if (time < fit_until_ && !std::isnan(row[c])) values.push_back(row[c]);
    });
    std::ranges::sort(values);
    for (std::size_t q = 0; q < 3; ++q) {
      const double at = kQuartiles[q] * static_cast<double>(values.size() - 1);
      const auto below = static_cast<std::size_t>(at);
      const double above = values[std::min(below + 1, values.size() - 1)];
      quartiles[3 * c + q] = values[below] + (above - values[below]) * (at - std::floor(at));
    }
  }
  return quartiles;
}

std::vector<double> Build::global_quartiles() {
  const std::size_t n_features = columns_.features.size();
  // So many columns at a time that each thread's counts fit its share.
  const std::size_t together = static_cast<std::size_t>(std::clamp<std::int64_t>(
      share() / QuantileSearch::bytes_of(1, 3), 1, static_cast<std::int64_t>(n_features)));
  std::vector<double> quartiles(3 * n_features);
  for (std::size_t first = 0; first < n_features; first += together) {
    const std::size_t n = std::min(together, n_features - first);
    std::vector<std::int64_t> counts(n);
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    pool_.parallel_for(n_threads_, [&](std::int64_t) {
      std::vector<std::int64_t> mine(n);
      for (std::int64_t e = next++; e < n_entities(); e = next++)
        each(e, [&](std::int64_t time, const double* row) {
          if (time >= fit_until_) return;
          for (std::size_t c = 0; c < n; ++c) mine[c] += std::isnan(row[first + c]) ? 0 : 1;
        });
      const std::lock_guard lock(mutex);
      for (std::size_t c = 0; c < n; ++c) counts[c] += mine[c];
    });
    QuantileSearch search(counts, kQuartiles);
    for (int pass = 0; pass < QuantileSearch::kPasses; ++pass) {
      next = 0;
      const QuantileSearch empty = search;
      pool_.parallel_for(n_threads_, [&](std::int64_t) {
        QuantileSearch mine = empty;
        for (std::int64_t e = next++; e < n_entities(); e = next++) {
          each(e, [&](std::int64_t time, const double* row) {
            if (time < fit_until_)
              for (std::size_t c = 0; c < n; ++c) mine.add(c, row[first + c]);
          });
          check_stop();
        }
        const std::lock_guard lock(mutex);
        search.merge(mine);
      });
      search.end_pass();
    }
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t q = 0; q < 3; ++q) quartiles[3 * (first + c) + q] = search.quantile(c, q);
  }
  return quartiles;
}

void Build::take_given_scaler() {
  const Scaler given = parse_scaler(options_.given_scaler, "the scaler that was given");
  std::vector<std::size_t> columns;
  for (const std::string& name : columns_.features) {
    const auto at = std::ranges::find(given.features, name);
    if (at == given.features.end())
      throw_invalid("the scaler that was given does not know the feature '{}'{}", name,
                    suggestion(name, given.features));
    columns.push_back(static_cast<std::size_t>(at - given.features.begin()));
  }
  std::vector<std::int64_t> sets(given.of == ScaleOf::kEntity ? rows_->entities().size() : 1);
  for (std::size_t e = 0; e < sets.size() && given.of == ScaleOf::kEntity; ++e) {
    const auto at = std::ranges::find(given.entities, rows_->entities()[e]);
    if (at == given.entities.end())
      throw_invalid("the scaler that was given does not know the entity '{}'",
                    rows_->entities()[e]);
    sets[e] = at - given.entities.begin();
  }
  const Scaler fitted = std::move(scaler_);
  begin_scaler(given.kind, given.of);
  scaler_.fit_until = given.fit_until;
  for (const std::int64_t set : sets)
    for (const std::size_t column : columns) {
      const std::size_t i = static_cast<std::size_t>(set) * given.features.size() + column;
      scaler_.center.push_back(given.center[i]);
      scaler_.scale.push_back(given.scale[i]);
      scaler_.n.push_back(given.n[i]);
      scaler_.mean.push_back(given.mean[i]);
      scaler_.variance.push_back(given.variance[i]);
      scaler_.min.push_back(given.min[i]);
      scaler_.max.push_back(given.max[i]);
      if (given.kind != ScalerKind::kRobust) continue;
      scaler_.lower.push_back(given.lower[i]);
      scaler_.upper.push_back(given.upper[i]);
    }
}

template <typename T>
class RowWriter {
 public:
  RowWriter(PlacedFile& file, std::int64_t offset) : file_(file), offset_(offset) {}
  void add(T value) {
    values_.push_back(value);
    if (values_.size() == (std::size_t{1} << 20) / sizeof(T)) flush();
  }
  void flush() {
    file_.write_at(offset_, std::as_bytes(std::span(values_)));
    offset_ += static_cast<std::int64_t>(values_.size() * sizeof(T));
    values_.clear();
  }

 private:
  PlacedFile& file_;
  std::int64_t offset_;
  std::vector<T> values_;
};

void Build::write_entity(std::int64_t entity, PlacedFile& features, PlacedFile& times) {
  const std::size_t n_features = columns_.features.size();
  const std::int64_t begin = entities_.begin_of(entity);
  const bool is_scaled = scaler_.kind != ScalerKind::kNone;
  const double* center = scaler_.center.data() + scaler_.first_of(entity);
  const double* scale = scaler_.scale.data() + scaler_.first_of(entity);
  const auto write_rows = [&]<typename T>(T) {
    RowWriter<T> values(features, begin * static_cast<std::int64_t>(n_features * sizeof(T)));
    RowWriter<std::int64_t> stamps(times, begin * 8);
    each(entity, [&](std::int64_t time, const double* row) {
      for (std::size_t f = 0; f < n_features; ++f) {
        const double value = is_scaled ? (row[f] - center[f]) / scale[f] : row[f];
        const T stored = static_cast<T>(value);
        if (std::isinf(stored))
          throw_error(ErrorKind::kPrecision, "",
                      "entity '{}', {}, feature '{}': {} is beyond what {} holds; take float64",
                      rows_->entities()[static_cast<std::size_t>(entity)],
                      time_text(time, policy_.kind), columns_.features[f], value,
                      dtype_name(options_.dtype));
        values.add(stored);
      }
      stamps.add(time);
    });
    values.flush();
    stamps.flush();
  };
  options_.dtype == DType::kF32 ? write_rows(float{}) : write_rows(double{});
}

SeriesFile Build::write_checksums(const io::Directory& directory, const PlacedFile& features,
                                  const PlacedFile& times) {
  const std::int64_t n = n_segments(features.size());
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(n + n_segments(times.size())));
  pool_.parallel_for(static_cast<std::int64_t>(checksums.size()), [&](std::int64_t i) {
    checksums[static_cast<std::size_t>(i)] =
        i < n ? features.segment_checksum(i) : times.segment_checksum(i - n);
    check_stop();
  });
  const auto bytes = std::as_bytes(std::span(checksums));
  return write_checked_file(directory, kChecksumsName,
                            {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void Build::write(BuildDirectory& target) {
  const io::Directory& directory = target.directory();
  const std::int64_t width =
      result_.n_features * static_cast<std::int64_t>(dtype_bytes(options_.dtype));
  begin_phase("writing", result_.n_rows * width);
  // Of a build that was interrupted between its last steps.
  directory.remove(kFeaturesName);
  directory.remove(kTimesName);
  PlacedFile features({directory, kFeaturesName}, result_.n_rows * width);
  PlacedFile times({directory, kTimesName}, result_.n_rows * 8);
  pool_.parallel_for(n_entities(), [&](std::int64_t e) {
    write_entity(e, features, times);
    advance((entities_.ends[static_cast<std::size_t>(e)] - entities_.begin_of(e)) * width);
  });
  entities_.names = rows_->entities();
  SeriesMetadata metadata{.features = columns_.features,
                          .target = options_.target,
                          .dtype = options_.dtype,
                          .time_kind = policy_.kind,
                          .n_rows = result_.n_rows,
                          .n_entities = n_entities(),
                          .scaler = scaler_.kind,
                          .scale = scaler_.of,
                          .fit_until = scaler_.fit_until,
                          .missing = kMissingNames[static_cast<int>(columns_.missing)],
                          .duplicates = kDuplicatesNames[static_cast<int>(options_.duplicates)],
                          .sort = options_.sort,
                          .window = options_.window,
                          .horizon = options_.horizon,
                          .stride = options_.stride,
                          .n_files = static_cast<std::int64_t>(files_.size()),
                          .n_rows_read = result_.n_rows_read,
                          .n_dropped = result_.n_dropped,
                          .n_merged = result_.n_merged,
                          .plan = plan_fingerprint(plan()),
                          .files = {}};
  metadata.files.push_back({kFeaturesName, features.size(), 0});
  metadata.files.push_back({kTimesName, times.size(), 0});
  metadata.files.push_back(write_checksums(directory, features, times));
  metadata.files.push_back(write_entities(directory, entities_));
  metadata.files.push_back(write_checked_file(directory, kScalerName, scaler_json(scaler_)));
  features.commit();
  times.commit();
  write_metadata(directory, metadata, entities_);
}

void Build::remember_bytes(BuildDirectory& target) {
  for (const char* name :
       {kFeaturesName, kTimesName, kEntitiesName, kChecksumsName, kScalerName, kMetadataName})
    result_.bytes += target.directory().file_bytes(name).value_or(0);
}

BuildResult Build::run() {
  const exec::ProgressMeter clock({}, "", 0);
  check_options();
  files_ = input_files(options_.inputs);
  result_.n_files = static_cast<std::int64_t>(files_.size());
  choose_features();
  find_groups();
  BuildDirectory target(options_.output_dir, plan(), options_.resume);
  if (target.is_finished()) {  // stopped between its last two steps
    const SeriesMetadata metadata = read_metadata(options_.output_dir);
    result_.n_rows = metadata.n_rows;
    result_.n_entities = metadata.n_entities;
    result_.n_rows_read = metadata.n_rows_read;
    result_.n_dropped = metadata.n_dropped;
    result_.n_merged = metadata.n_merged;
    result_.n_parts = result_.n_parts_resumed = static_cast<std::int64_t>(groups_.size());
  } else {
    try {
      read_inputs(target);
      find_statistics();
      if (!options_.given_scaler.empty()) take_given_scaler();
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
  target.remove_parts();
  remember_bytes(target);
  if (n_constant_ > 0 && scaler_.kind != ScalerKind::kNone && options_.given_scaler.empty())
    result_.warnings.push_back(fmt::format(
        "all values are the same, so that their scale is 1: {}{}", fmt::join(constant_, ", "),
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
