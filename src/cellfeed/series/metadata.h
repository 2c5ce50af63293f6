// metadata.json and entities.arrow: what a series directory holds, and of which entity each row is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/series/scaler.h"
#include "cellfeed/series/timestamp.h"

namespace cellfeed::series {

inline constexpr const char* kMetadataName = "metadata.json";
inline constexpr const char* kFeaturesName = "all_features.mmap";
inline constexpr const char* kTimesName = "time.mmap";
inline constexpr const char* kEntitiesName = "entities.arrow";
inline constexpr const char* kChecksumsName = "checksums.mmap";

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
  std::optional<std::string> fit_until;
  std::string missing, duplicates;
  bool sort = true;
  // What windows are where a reader asks for none; 0: no default.
  std::int64_t window = 0, horizon = 1, stride = 1;
  std::int64_t n_files = 0, n_rows_read = 0, n_dropped = 0, n_merged = 0;
  std::uint64_t plan = 0;  // fingerprint of the inputs and options that it was built of
  std::vector<SeriesFile> files;
};

// Of each entity, in the order of their rows.
struct EntityTable {
  std::vector<std::string> names;
  std::vector<std::int64_t> ends;  // row ranges are [end of the one before, end)
  std::vector<std::int64_t> first_times, last_times;

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  std::int64_t begin_of(std::int64_t entity) const {
    return entity == 0 ? 0 : ends[static_cast<std::size_t>(entity - 1)];
  }
};

// The file's entry.
SeriesFile write_entities(const io::Directory& directory, const EntityTable& entities);
SeriesFile write_checked_file(const io::Directory& directory, const std::string& name,
                              std::string_view bytes);
// Durable when it returns: the directory is then a series.
void write_metadata(const io::Directory& directory, const SeriesMetadata& metadata,
                    const EntityTable& entities);

// Throws kNotFound where there is no finished series, kCorruptData, kUnsupported for another
// version. The time it takes does not grow with the rows, and hardly with the entities.
SeriesMetadata read_metadata(const std::string& dir);
EntityTable read_entities(const std::string& dir, const SeriesMetadata& metadata);

}  // namespace cellfeed::series
