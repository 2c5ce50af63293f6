// metadata.json and entities.arrow: what a series directory holds, and of which entity each row is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/series/row_source.h"
#include "cellfeed/series/scaler.h"
#include "cellfeed/series/timestamp.h"

namespace cellfeed::series {

inline constexpr const char* kMetadataName = "metadata.json";
inline constexpr const char* kFeaturesName = "all_features.mmap";
inline constexpr const char* kTimesName = "time.mmap";
inline constexpr const char* kEntitiesName = "entities.arrow";
inline constexpr const char* kChecksumsName = "checksums.mmap";
// Lies in the directory while rows are appended: files may then be longer than metadata say.
inline constexpr const char* kAppendingFolder = ".appending";

// The name that one of the files has after so many appends: those that an append replaces have
// another name each time ("entities.2.arrow"), so that the old state is whole until the metadata
// name the new one.
std::string name_after_appends(std::string_view name, std::int64_t n_appends);
// Whether a file name is one of a series, of any number of appends.
bool is_series_file(std::string_view name);
// Removes from a bucket what a writer that was stopped had sent of such files. REQUIRES: the
// directory's lock.
io::UnfinishedUploads remove_unfinished_uploads(const io::Directory& dir);
// Rows are being appended, or an append was stopped.
bool is_appended_to(const std::string& dir);

struct SeriesFile {
  std::string name;
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;  // of the whole file; of the .mmap files of rows, see checksums.mmap
};

struct SeriesMetadata {
  std::vector<std::string> features;
  std::vector<std::string> target;
  DType dtype = DType::kF32;
  TimeKind time_kind = TimeKind::kRow;
  std::int64_t n_rows = 0;
  std::int64_t n_entities = 0;
  ScalerKind scaler = ScalerKind::kNone;
  ScaleOf scale = ScaleOf::kGlobal;
  std::optional<std::string> fit_until, fit_mask, fit_last_time;
  std::string missing, duplicates;
  bool sort = true;
  std::int64_t freq = 0;  // as RowPolicy has it
  // What windows are where a reader asks for none; 0: no default.
  std::int64_t window = 0, horizon = 1, stride = 1;
  std::int64_t n_files = 0, n_rows_read = 0, n_dropped = 0, n_merged = 0;
  // Where rows, times and entities were found in the inputs; appended files are read likewise.
  RowColumns columns;
  bool has_auto_features = false;  // features were all numeric columns
  std::int64_t n_appends = 0;
  std::uint64_t built = 0;  // fingerprint of the inputs and options of the build
  std::uint64_t plan = 0;   // and of all that was appended
  std::vector<SeriesFile> files;

  // By the name without a number of appends.
  const SeriesFile& file(std::string_view name) const;
};

// Consecutive rows of the directory that are consecutive rows of one entity.
struct Extent {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Extent&) const = default;
};

// When the rows of an entity are.
struct EntityTimes {
  std::int64_t first = 0, last = 0;  // 0 where there are no rows
  std::int64_t step = 0;             // the median one (gaps.h); 0 where it is not known
  std::vector<std::int64_t> gaps{};  // rows, counted in the entity, before which there is one
};

// Of each entity. Its rows, in the order of time, are those of its extents one after another: one
// extent of what was built, more where rows were appended, none where it has no rows.
struct EntityTable {
  std::vector<std::string> names;
  std::vector<std::int64_t> first_times, last_times;  // 0 where there are no rows
  std::vector<std::int64_t> extent_ends;              // extents of entities up to each one
  std::vector<Extent> all_extents;
  std::vector<std::int64_t> steps;     // as EntityTimes has them
  std::vector<std::int64_t> gap_ends;  // gaps of entities up to each one
  std::vector<std::int64_t> all_gaps;
  StaticTable statics;

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  std::span<const Extent> extents(std::int64_t entity) const {
    const auto e = static_cast<std::size_t>(entity);
    const std::int64_t begin = e == 0 ? 0 : extent_ends[e - 1];
    return std::span(all_extents)
        .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(extent_ends[e] - begin));
  }
  std::span<const std::int64_t> gaps(std::int64_t entity) const {
    const auto e = static_cast<std::size_t>(entity);
    const std::int64_t begin = e == 0 ? 0 : gap_ends[e - 1];
    return std::span(all_gaps).subspan(static_cast<std::size_t>(begin),
                                       static_cast<std::size_t>(gap_ends[e] - begin));
  }
  EntityTimes times(std::int64_t entity) const;
  std::int64_t n_rows(std::int64_t entity) const {
    std::int64_t n = 0;
    for (const Extent& extent : extents(entity)) n += extent.end - extent.begin;
    return n;
  }
  void add(std::string name, const EntityTimes& times, std::span<const Extent> extents);
};

// The file's entry. n_appends: what the name tells.
SeriesFile write_entities(const io::Directory& directory, const EntityTable& entities,
                          std::int64_t n_appends);
SeriesFile write_checked_file(const io::Directory& directory, const std::string& name,
                              std::string_view bytes);
// Durable when it returns: the directory is then a series.
void write_metadata(const io::Directory& directory, const SeriesMetadata& metadata,
                    const EntityTable& entities);

// Throws kNotFound where there is no finished series, kCorruptData, kUnsupported for another
// version. The time it takes does not grow with the rows, and hardly with the entities. What an
// append replaces meanwhile is read again.
SeriesMetadata read_metadata(const std::string& dir);
EntityTable read_entities(const std::string& dir, const SeriesMetadata& metadata);
// Throws kCorruptData, naming the entity, where metadata.json lists other entities, rows, times or
// static values than entities.arrow.
void require_same_entities(const std::string& dir);
// Both, of one state.
std::pair<SeriesMetadata, EntityTable> read_series(const std::string& dir);

}  // namespace cellfeed::series
