#include "cellfeed/series/windows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::series {
namespace {

// Less is copied before another thread has woken up.
constexpr std::int64_t kBytesWorthAThread = std::int64_t{1} << 18;
constexpr std::int64_t kPrefetchedAhead = 2;
// Windows of a batch by which it is told whether the rows are in memory.
constexpr std::size_t kLookedAt = 4;

bool is_identity(std::span<const std::int32_t> columns, std::size_t n) {
  if (columns.size() != n) return false;
  for (std::size_t i = 0; i < n; ++i)
    if (columns[i] != static_cast<std::int32_t>(i)) return false;
  return true;
}

template <typename From, typename To>
void copy_values(const From* rows, std::size_t width, std::int64_t n,
                 std::span<const std::int32_t> columns, To* out) {
  for (std::int64_t i = 0; i < n; ++i, rows += width)
    for (const std::int32_t column : columns) *out++ = static_cast<To>(rows[column]);
}

}  // namespace

std::shared_ptr<const SeriesRows> SeriesRows::open(const std::string& dir) {
  std::shared_ptr<SeriesRows> rows(new SeriesRows);
  rows->dir_ = dir;
  std::tie(rows->metadata_, rows->entities_) = read_series(dir);
  const io::Directory directory(dir);
  const auto map = [&](const char* name) {
    const std::string path = directory.path_of(name);
    auto source = io::open_file(path, {.random_access = true, .guarded = true});
    if (source->size() > 0 && source->map().empty())
      throw Error(ErrorKind::kUnsupported,
                  "cannot be mapped: windows are cut from a local disk; copy the directory", path);
    // It may have been replaced since its size was looked at; rows may have been appended.
    if (source->size() < rows->metadata_.file(name).bytes)
      throw_error(ErrorKind::kCorruptData, path, "has {} bytes where the metadata say {}",
                  source->size(), rows->metadata_.file(name).bytes);
    return source;
  };
  rows->values_ = map(kFeaturesName);
  rows->times_ = map(kTimesName);
  const EntityTable& entities = rows->entities_;
  rows->first_rows_.reserve(entities.all_extents.size());
  for (std::int64_t e = 0; e < entities.size(); ++e) {
    std::int64_t row = 0;
    for (const Extent& extent : entities.extents(e)) {
      rows->first_rows_.push_back(row);
      row += extent.end - extent.begin;
    }
  }
  return rows;
}

bool SeriesRows::is_longer_only(const io::ByteSource& file, std::size_t which) const {
  const io::PathStatus status = io::status_of(file.path());
  if (!status.is_file() || status.size < file.size()) return false;
  const std::int64_t changed = status.modified_ns;
  if (changed == known_changes_[which].load(std::memory_order_relaxed)) return true;
  if (is_appended_to(dir_)) return true;
  try {
    const SeriesMetadata now = read_metadata(dir_);
    if (now.built != metadata_.built || now.n_appends <= metadata_.n_appends) return false;
  } catch (const Error&) {
    return false;  // what is there now is no series, so not this one with more rows
  }
  known_changes_[which].store(changed, std::memory_order_relaxed);
  return true;
}

void SeriesRows::require_all_pages() const {
  for (std::size_t i = 0; i < 2; ++i) {
    const io::ByteSource& file = i == 0 ? *values_ : *times_;
    io::require_all_pages(file);
    // What is cut off within a page reads as zeros.
    if (!file.is_unchanged() && !is_longer_only(file, i))
      throw Error(ErrorKind::kIo,
                  "was written to while it was open, so that its rows are no longer known; open it "
                  "again",
                  file.path());
  }
}

SeriesRows::Stretch SeriesRows::stretch(std::int64_t entity, std::int64_t row) const {
  const auto extents = entities_.extents(entity);
  if (extents.size() == 1) return {extents[0].begin + row, extents[0].end - extents[0].begin - row};
  const auto first = static_cast<std::size_t>(extents.data() - entities_.all_extents.data());
  const auto firsts = std::span(first_rows_).subspan(first, extents.size());
  const auto i = static_cast<std::size_t>(std::ranges::upper_bound(firsts, row) - firsts.begin());
  const Extent& extent = extents[i - 1];
  const std::int64_t begin = extent.begin + row - firsts[i - 1];
  return {begin, extent.end - begin};
}

std::int64_t SeriesRows::first_row_at(std::int64_t entity, std::int64_t time) const {
  const auto extents = entities_.extents(entity);
  // Before any page of times is looked at.
  if (extents.empty() || time <= entities_.first_times[static_cast<std::size_t>(entity)]) return 0;
  if (time > entities_.last_times[static_cast<std::size_t>(entity)])
    return entities_.n_rows(entity);
  const std::int64_t* const times = this->times();
  // The first extent that ends at this time or later.
  const auto extent = std::ranges::partition_point(
      extents, [&](const Extent& e) { return times[e.end - 1] < time; });
  const auto before = static_cast<std::size_t>(extents.data() - entities_.all_extents.data()) +
                      static_cast<std::size_t>(extent - extents.begin());
  if (extent == extents.end()) return entities_.n_rows(entity);
  return first_rows_[before] + (std::lower_bound(times + extent->begin, times + extent->end, time) -
                                (times + extent->begin));
}

std::int64_t SeriesRows::rows_before(std::span<const std::int64_t> entities,
                                     std::int64_t time) const {
  std::int64_t n = 0;
  for (const std::int64_t entity : entities) n += first_row_at(entity, time);
  require_all_pages();
  return n;
}

SeriesWindows::SeriesWindows(std::shared_ptr<const SeriesRows> rows, WindowOptions options)
    : rows_(std::move(rows)), options_(std::move(options)) {
  const SeriesMetadata& metadata = rows_->metadata();
  const auto n_cols = static_cast<std::int32_t>(metadata.features.size());
  if (options_.window < 1 || options_.horizon < 1 || options_.stride < 1 || options_.purge < 0)
    throw_invalid("window, horizon and stride must be at least 1, and purge at least 0");
  if (options_.features.empty() || options_.targets.empty())
    throw_invalid("a window needs features and a target");
  for (const auto* columns : {&options_.features, &options_.targets, &options_.future}) {
    for (const std::int32_t column : *columns)
      if (column < 0 || column >= n_cols)
        throw_error(ErrorKind::kOutOfRange, "", "feature {} of {}", column, n_cols);
  }
  if (!is_float(options_.dtype)) throw_invalid("dtype must be float32 or float64");
  if (!options_.transforms.empty()) begin_transforms();
  const CheckedSize span = CheckedSize(options_.window) + options_.horizon + lead_;
  if (!(CheckedSize(options_.window) * std::ssize(options_.features) * 8).fits() ||
      !(CheckedSize(options_.horizon) * std::ssize(options_.targets) * 8).fits() ||
      !(CheckedSize(options_.horizon) * std::ssize(options_.future) * 8).fits() || !span.fits())
    throw_invalid("a window of {} rows is too large", options_.window);
  has_all_features_ = is_identity(options_.features, metadata.features.size());
  has_all_targets_ = is_identity(options_.targets, metadata.features.size());
  has_all_future_ = is_identity(options_.future, metadata.features.size());
  std::int64_t total = 0;
  ends_.reserve(options_.entities.size());
  first_rows_.reserve(options_.entities.size());
  for (const std::int64_t entity : options_.entities) {
    if (entity < 0 || entity >= rows_->entities().size())
      throw_error(ErrorKind::kOutOfRange, "", "entity {} of {}", entity, rows_->entities().size());
    std::int64_t begin = 0;
    std::int64_t end = rows_->entities().n_rows(entity);
    if (options_.until) end = rows_->first_row_at(entity, *options_.until);
    if (options_.from) {
      begin = rows_->first_row_at(entity, *options_.from);
      if (begin > 0) begin = std::min(begin + options_.purge, end);
    }
    const std::int64_t n_rows = std::max<std::int64_t>(0, end - begin);
    const std::int64_t n =
        n_rows < span.value() ? 0 : (n_rows - span.value()) / options_.stride + 1;
    n_short_ += n == 0 ? 1 : 0;
    total += n;
    ends_.push_back(total);
    first_rows_.push_back(begin + lead_);
  }
  rows_->require_all_pages();
}

SeriesWindows::Place SeriesWindows::place(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw_error(ErrorKind::kOutOfRange, "", "window {} is outside the {} of this data set", index,
                size());
  const auto i = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  const std::int64_t before = i == 0 ? 0 : ends_[i - 1];
  return {options_.entities[i], first_rows_[i] + (index - before) * options_.stride};
}

std::int64_t SeriesWindows::part_bytes(std::int64_t n_rows,
                                       std::span<const std::int32_t> columns) const {
  return n_rows * std::ssize(columns) * static_cast<std::int64_t>(dtype_bytes(options_.dtype));
}
std::int64_t SeriesWindows::x_bytes() const {
  return part_bytes(options_.window, options_.features);
}
std::int64_t SeriesWindows::y_bytes() const {
  return part_bytes(options_.horizon, options_.targets);
}
std::int64_t SeriesWindows::future_bytes() const {
  return part_bytes(options_.horizon, options_.future);
}

void SeriesWindows::copy_rows(std::int64_t row, std::int64_t n,
                              std::span<const std::int32_t> columns, bool is_whole,
                              std::byte* out) const {
  const SeriesMetadata& metadata = rows_->metadata();
  const std::size_t width = metadata.features.size();
  const std::size_t row_bytes = width * dtype_bytes(metadata.dtype);
  const std::byte* from = rows_->values() + static_cast<std::size_t>(row) * row_bytes;
  if (is_whole && metadata.dtype == options_.dtype) {
    std::memcpy(out, from, static_cast<std::size_t>(n) * row_bytes);
    return;
  }
  const auto copy_from = [&]<typename From>(const From* values) {
    if (options_.dtype == DType::kF32)
      copy_values(values, width, n, columns, reinterpret_cast<float*>(out));
    else
      copy_values(values, width, n, columns, reinterpret_cast<double*>(out));
  };
  if (metadata.dtype == DType::kF32)
    copy_from(reinterpret_cast<const float*>(from));
  else
    copy_from(reinterpret_cast<const double*>(from));
}

void SeriesWindows::copy_part(Place place, std::int64_t n, std::span<const std::int32_t> columns,
                              bool is_whole, std::byte* out) const {
  const auto width = columns.size() * dtype_bytes(options_.dtype);
  while (n > 0) {
    const SeriesRows::Stretch stretch = rows_->stretch(place.entity, place.row);
    const std::int64_t some = std::min(n, stretch.n);
    copy_rows(stretch.row, some, columns, is_whole, out);
    out += static_cast<std::size_t>(some) * width;
    place.row += some;
    n -= some;
  }
}

void SeriesWindows::copy_one(const Place& place, const WindowParts& out) const {
  if (scaler_) return copy_transformed(place, out);
  copy_part(place, options_.window, options_.features, has_all_features_, out.x);
  const Place after{place.entity, place.row + options_.window};
  copy_part(after, options_.horizon, options_.targets, has_all_targets_, out.y);
  if (!options_.future.empty())
    copy_part(after, options_.horizon, options_.future, has_all_future_, out.future);
}

io::ByteRange SeriesWindows::range_of(const Place& place) const {
  const SeriesMetadata& metadata = rows_->metadata();
  const auto row_bytes =
      static_cast<std::int64_t>(metadata.features.size() * dtype_bytes(metadata.dtype));
  const SeriesRows::Stretch stretch = rows_->stretch(place.entity, place.row);
  return {stretch.row * row_bytes,
          std::min(stretch.n, options_.window + options_.horizon) * row_bytes};
}

void SeriesWindows::will_read(std::span<const std::int64_t> indices) const {
  std::vector<std::int64_t> some;
  const std::size_t n_looked_at = std::min(kLookedAt, indices.size());
  for (std::size_t i = 0; i < n_looked_at; ++i)
    some.push_back(range_of(place(indices[i * indices.size() / n_looked_at])).offset);
  if (rows_->value_file().is_cached(some)) return;
  std::vector<io::ByteRange> ranges;
  ranges.reserve(indices.size());
  for (const std::int64_t index : indices) ranges.push_back(range_of(place(index)));
  std::ranges::sort(ranges, {}, &io::ByteRange::offset);
  rows_->value_file().will_read(ranges);
}

// What the processor does not foresee: where a window begins, and the pages after it.
void SeriesWindows::prefetch(const Place& place) const {
  constexpr std::uintptr_t kPage = 4096, kLine = 64, kLines = 4;
  const SeriesMetadata& metadata = rows_->metadata();
  const auto row_bytes =
      static_cast<std::int64_t>(metadata.features.size() * dtype_bytes(metadata.dtype));
  const SeriesRows::Stretch stretch = rows_->stretch(place.entity, place.row);
  const auto begin = reinterpret_cast<std::uintptr_t>(rows_->values() + stretch.row * row_bytes);
  const auto end = begin + static_cast<std::uintptr_t>(
                               std::min(stretch.n, options_.window + options_.horizon) * row_bytes);
  for (std::uintptr_t at = begin; at < end; at = (at / kPage + 1) * kPage)
    for (std::uintptr_t line = at; line < std::min(end, at + kLines * kLine); line += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(line));
}

void SeriesWindows::copy(std::span<const std::int64_t> indices, const WindowParts& out,
                         int threads) const {
  std::vector<Place> places(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) places[i] = place(indices[i]);
  if (indices.size() > 1) will_read(indices);
  const std::int64_t bytes = (x_bytes() + y_bytes() + future_bytes()) * std::ssize(indices);
  const std::int64_t n_pieces = std::clamp<std::int64_t>(
      std::min<std::int64_t>(bytes / kBytesWorthAThread, 4 * std::int64_t{threads}), 1,
      std::max<std::int64_t>(1, std::ssize(indices)));
  const auto copy_piece = [&](std::int64_t piece) {
    const auto n = std::ssize(indices);
    const std::int64_t end = (piece + 1) * n / n_pieces;
    for (std::int64_t i = piece * n / n_pieces; i < end; ++i) {
      if (i + kPrefetchedAhead < end)
        prefetch(places[static_cast<std::size_t>(i + kPrefetchedAhead)]);
      copy_one(places[static_cast<std::size_t>(i)],
               {out.x + i * x_bytes(), out.y + i * y_bytes(),
                out.future == nullptr ? nullptr : out.future + i * future_bytes()});
    }
  };
  if (threads <= 1 || n_pieces == 1)
    for (std::int64_t piece = 0; piece < n_pieces; ++piece) copy_piece(piece);
  else
    exec::shared_pool(threads)->parallel_for(n_pieces, copy_piece);
  rows_->require_all_pages();
}

}  // namespace cellfeed::series
