// Windows over the rows of a series directory: which rows a window is of, and windows copied out.
// A window is `window` rows of features and, after them, `horizon` rows of targets, all of one
// entity.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/series/series_rows.h"
#include "cellfeed/series/window_transform.h"

namespace cellfeed::series {

// Steps between times that no window crosses.
struct GapRule {
  bool splits = true;
  // More than this; empty: more than three times the median step of the entity (gaps.h).
  std::optional<std::int64_t> longest{};
};

struct WindowOptions {
  std::int64_t window = 0, horizon = 1, stride = 1;
  std::vector<std::int32_t> features, targets;  // columns; none empty
  // Columns known ahead: of the rows of y too. May be empty.
  std::vector<std::int32_t> future;
  std::vector<std::int64_t> entities;       // in the order of their windows
  std::optional<std::int64_t> from, until;  // times that all rows of a window lie in
  // Of an entity that has rows before `from`: rows left out after it.
  std::int64_t purge = 0;
  GapRule gaps{};
  DType dtype = DType::kF32;
  // Of each column of the directory; empty: nothing is done to values. A step takes one row more,
  // before X.
  std::vector<ColumnTransform> transforms;
};

// Where the parts of a window go; future may be null where no columns are known ahead.
struct WindowParts {
  std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::byte* future = nullptr;
};

// Thread-safe, fork-safe: immutable.
class SeriesWindows {
 public:
  // Throws kInvalidArgument and kOutOfRange.
  SeriesWindows(std::shared_ptr<const SeriesRows> rows, WindowOptions options);

  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // Entities that are too short for any window.
  std::int64_t n_short() const { return n_short_; }
  // Where the windows of each entity of the options end.
  std::span<const std::int64_t> ends() const { return ends_; }
  // Gaps among the rows that no window crosses.
  std::int64_t n_gaps() const { return n_gaps_; }
  const WindowOptions& options() const { return options_; }
  const SeriesRows& rows() const { return *rows_; }

  struct Place {
    std::int64_t entity = 0;  // its number in the directory
    std::int64_t row = 0;     // the first of X, counted in the entity
  };
  // O(log entities). Throws kOutOfRange.
  Place place(std::int64_t index) const;

  // Rows before X that a window takes: 1 where values become differences, else 0.
  std::int64_t lead() const { return lead_; }
  // Predictions of y (horizon x targets of each window) as values that would have been read.
  // Throws kOutOfRange, and kPrecision for log returns of what is not above 0.
  void undo(std::span<const std::int64_t> indices, double* predictions) const;

  std::int64_t x_bytes() const;  // of one window
  std::int64_t y_bytes() const;
  std::int64_t future_bytes() const;
  // Copies windows one after another: window x features, horizon x targets and horizon x future, of
  // dtype. On so many threads. A float64 becomes the nearest float32. Throws kOutOfRange before
  // anything is copied, and kIo.
  void copy(std::span<const std::int64_t> indices, const WindowParts& out, int threads) const;
  // Has the rows of windows that will be copied soon read into memory, many at once, where they are
  // not there; waits for none. Does nothing where copy() reads past the system's cache. Throws
  // kOutOfRange.
  void will_read(std::span<const std::int64_t> indices) const;

 private:
  void begin_transforms();
  std::vector<std::int64_t> gaps_of(std::int64_t entity, std::int64_t begin,
                                    std::int64_t end) const;
  void add_piece(std::int64_t entity, std::int64_t begin, std::int64_t end);
  io::ByteRange range_of(const Place& place) const;
  // Of all rows that a window takes.
  void add_extents(const Place& place, std::vector<Extent>& extents) const;
  void prefetch(const Place& place, const RowBytes& rows) const;
  // Through the memory that the rows are mapped to, or by ranges.
  void copy_whole(std::span<const Place> places, const WindowParts& out, int threads) const;
  void copy_directly(std::span<const Place> places, const WindowParts& out, int threads) const;
  // Where the parts of a window go that comes after n others.
  WindowParts after(const WindowParts& out, std::int64_t n) const;
  void copy_places(std::span<const Place> places, const RowBytes& rows, const WindowParts& out,
                   int threads) const;
  std::int64_t part_bytes(std::int64_t n_rows, std::span<const std::int32_t> columns) const;
  void copy_one(const Place& place, const RowBytes& rows, const WindowParts& out) const;
  void copy_transformed(const Place& place, const RowBytes& rows, const WindowParts& out) const;
  std::vector<double> column(const Place& place, const RowBytes& rows, std::int64_t n,
                             std::int32_t column) const;
  ColumnScale scale_of(std::int64_t entity, std::int32_t column) const;
  [[noreturn]] void throw_not_positive(const Place& place, std::int32_t column) const;
  void copy_part(const Place& place, const RowBytes& rows, std::int64_t n,
                 std::span<const std::int32_t> columns, bool is_whole, std::byte* out) const;
  void copy_rows(const std::byte* from, std::int64_t n, std::span<const std::int32_t> columns,
                 bool is_whole, std::byte* out) const;

  std::shared_ptr<const SeriesRows> rows_;
  WindowOptions options_;
  std::int64_t lead_ = 0;
  std::optional<Scaler> scaler_;            // where there are transforms
  const io::ByteSource* direct_ = nullptr;  // where values are read past the system's cache
  bool has_all_features_ = false, has_all_targets_ = false, has_all_future_ = false;
  // For each run of rows of one entity without a gap: the end of its windows, the first row of the
  // first one, and its entity.
  std::vector<std::int64_t> ends_, first_rows_, piece_entities_;
  std::int64_t n_short_ = 0, n_gaps_ = 0;
};

}  // namespace cellfeed::series
