// SeriesRows: a series directory, opened: its tables, and its rows, mapped where they are on a
// local disk, else read by ranges; those of a local disk past the system's cache too.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/exec/available_memory.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/row_bytes.h"

namespace cellfeed::series {

// Where the values of windows come from.
enum class RowAccess {
  kAuto,    // kDirect for rows that take more memory than there is, where the disk can, else kMap
  kMap,     // memory; of a bucket by ranges
  kDirect,  // the disk, many reads at once, past the system's cache: nothing is kept in memory
};
RowAccess row_access_from_name(std::string_view name);  // "auto", "map", "direct"

struct RowReading {
  RowAccess access = RowAccess::kAuto;
  // Bytes; 0: not known.
  std::function<std::int64_t()> available_memory = [] { return exec::available_memory(); };
};

// Thread-safe, fork-safe: immutable.
class SeriesRows {
 public:
  // Throws what read_metadata and read_entities do; of kDirect, kUnsupported where the files are
  // not of a local disk that allows it.
  static std::shared_ptr<const SeriesRows> open(const std::string& dir, RowReading reading = {});

  const std::string& dir() const { return dir_; }
  const SeriesMetadata& metadata() const { return metadata_; }
  const EntityTable& entities() const { return entities_; }
  const io::ByteSource& value_file() const { return *values_; }
  // Past the system's cache, for windows of so many rows together; null where value_file() is
  // better.
  const io::ByteSource* direct_file(std::int64_t n_rows) const;
  std::int64_t row_bytes() const;
  // Values of rows of the directory.
  RowBytes values(std::span<const Extent> rows) const { return {*values_, row_bytes(), rows}; }
  // The values of one row, as they are stored.
  std::vector<double> stored_values(std::int64_t row) const;
  // Throws kIo where the files were written to or shortened, or the disk failed, after they were
  // opened. Rows that are appended leave those that were opened as they are, and do not count.
  void require_all_pages() const;
  // ---- Rows of an entity are counted from 0, in the order of time.

  // Where a row lies in the directory, and how many of the entity's rows lie there in one piece,
  // this one counted. REQUIRES: row < the entity's rows.
  struct Stretch {
    std::int64_t row = 0, n = 0;
  };
  Stretch stretch(std::int64_t entity, std::int64_t row) const;
  // Calls fn(row, n) for where the entity's rows [first, first + n) lie in the directory.
  template <typename Fn>
  void each_stretch(std::int64_t entity, std::int64_t first, std::int64_t n, const Fn& fn) const {
    while (n > 0) {
      const Stretch at = stretch(entity, first);
      const std::int64_t some = std::min(n, at.n);
      fn(at.row, some);
      first += some;
      n -= some;
    }
  }
  // Of rows of the directory.
  std::vector<std::int64_t> times(std::span<const std::int64_t> rows) const;
  // Of each entity the first row at `time` or later; the number of its rows where there is none.
  std::vector<std::int64_t> first_rows_at(std::span<const std::int64_t> entities,
                                          std::int64_t time) const;
  // Calls fn(row, step) for the rows of an entity in [begin, end) that have one before them there.
  void each_step(std::int64_t entity, std::int64_t begin, std::int64_t end,
                 const std::function<void(std::int64_t, std::uint64_t)>& fn) const;
  // The step to each of these rows from the row before it. REQUIRES: none is 0.
  std::vector<std::uint64_t> steps_before(std::int64_t entity,
                                          std::span<const std::int64_t> rows) const;
  // Rows of the entities given that are before a time.
  std::int64_t rows_before(std::span<const std::int64_t> entities, std::int64_t time) const;

 private:
  SeriesRows() = default;
  bool is_longer_only(const io::ByteSource& file, std::size_t which) const;
  std::int64_t mapped_row_at(std::int64_t entity, std::int64_t time) const;
  void search_rows(std::span<const std::int64_t> entities, std::int64_t time,
                   std::span<std::int64_t> found) const;
  void open_directly(const std::string& path);
  bool is_more_than_there_is(std::int64_t n_bytes) const;
  std::string dir_;
  RowReading reading_;
  SeriesMetadata metadata_;
  EntityTable entities_;
  std::vector<std::int64_t> first_rows_;  // of each extent, counted in its entity
  std::unique_ptr<io::ByteSource> values_, times_;
  std::unique_ptr<io::ByteSource> direct_;  // the values again; null where nobody will ask for it
  // When the files were seen to have changed by appending alone: the time of change of each.
  mutable std::array<std::atomic<std::int64_t>, 2> known_changes_{};
};

}  // namespace cellfeed::series
