#include "cellfeed/series/windows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/series/gaps.h"

namespace cellfeed::series {
namespace {

// Less is copied before another thread has woken up.
constexpr std::int64_t kBytesWorthAThread = std::int64_t{1} << 18;
constexpr std::int64_t kPrefetchedAhead = 2;
// Held at a time of windows that are read by ranges.
constexpr std::int64_t kFetchedBytes = std::int64_t{128} << 20;
// Of windows that are read past the system's cache, at a time; and of these, asked for while others
// are copied.
constexpr std::int64_t kDirectBytes = std::int64_t{8} << 20, kDirectWindows = 64;
constexpr std::size_t kDirectAhead = 7;
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
  if (options_.gaps.longest && *options_.gaps.longest < 1) throw_invalid("max_gap must be above 0");
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
  for (const std::int64_t entity : options_.entities)
    if (entity < 0 || entity >= rows_->entities().size())
      throw_error(ErrorKind::kOutOfRange, "", "entity {} of {}", entity, rows_->entities().size());
  std::vector<std::int64_t> begins, row_ends;
  if (options_.from) begins = rows_->first_rows_at(options_.entities, *options_.from);
  if (options_.until) row_ends = rows_->first_rows_at(options_.entities, *options_.until);
  std::int64_t rows_together = 0;
  ends_.reserve(options_.entities.size());
  first_rows_.reserve(options_.entities.size());
  piece_entities_.reserve(options_.entities.size());
  for (std::size_t i = 0; i < options_.entities.size(); ++i) {
    const std::int64_t end =
        options_.until ? row_ends[i] : rows_->entities().n_rows(options_.entities[i]);
    std::int64_t begin = options_.from ? begins[i] : 0;
    if (options_.from) begin = std::min(begin + options_.purge, end);
    const std::int64_t entity = options_.entities[i];
    const std::int64_t n_rows = std::max<std::int64_t>(0, end - begin);
    const std::int64_t n_before = size();
    for (const std::int64_t gap : gaps_of(entity, begin, end)) {
      add_piece(entity, begin, gap);
      begin = gap;
      ++n_gaps_;
    }
    add_piece(entity, begin, end);
    n_short_ += size() == n_before ? 1 : 0;
    if (size() > n_before) rows_together += n_rows;
  }
  direct_ = rows_->direct_file(rows_together);
  rows_->require_all_pages();
}

void SeriesWindows::add_piece(std::int64_t entity, std::int64_t begin, std::int64_t end) {
  const std::int64_t span = lead_ + options_.window + options_.horizon;
  const std::int64_t n_rows = std::max<std::int64_t>(0, end - begin);
  const std::int64_t n = n_rows < span ? 0 : (n_rows - span) / options_.stride + 1;
  ends_.push_back(size() + n);
  first_rows_.push_back(begin + lead_);
  piece_entities_.push_back(entity);
}

// Rows before which a gap lies, of those after `begin` and before `end`.
std::vector<std::int64_t> SeriesWindows::gaps_of(std::int64_t entity, std::int64_t begin,
                                                 std::int64_t end) const {
  std::vector<std::int64_t> found;
  if (!options_.gaps.splits || rows_->metadata().time_kind == TimeKind::kRow) return found;
  const auto automatic = longest_step(rows_->entities().steps[static_cast<std::size_t>(entity)]);
  const auto longest =
      options_.gaps.longest ? static_cast<std::uint64_t>(*options_.gaps.longest) : automatic;
  const auto add = [&](std::int64_t row) {
    if (row > begin && row < end) found.push_back(row);
  };
  if (longest < automatic) {
    rows_->each_step(entity, begin, end, [&](std::int64_t row, std::uint64_t step) {
      if (step > longest) add(row);
    });
    return found;
  }
  for (const std::int64_t row : rows_->entities().gaps(entity)) add(row);
  if (!options_.gaps.longest) return found;
  const std::vector<std::uint64_t> steps = rows_->steps_before(entity, found);
  std::size_t i = 0;
  std::erase_if(found, [&](std::int64_t) { return steps[i++] <= longest; });
  return found;
}

SeriesWindows::Place SeriesWindows::place(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw_error(ErrorKind::kOutOfRange, "", "window {} is outside the {} of this data set", index,
                size());
  const auto i = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  const std::int64_t before = i == 0 ? 0 : ends_[i - 1];
  return {piece_entities_[i], first_rows_[i] + (index - before) * options_.stride};
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

void SeriesWindows::copy_rows(const std::byte* from, std::int64_t n,
                              std::span<const std::int32_t> columns, bool is_whole,
                              std::byte* out) const {
  const SeriesMetadata& metadata = rows_->metadata();
  const std::size_t width = metadata.features.size();
  if (is_whole && metadata.dtype == options_.dtype) {
    std::memcpy(out, from, static_cast<std::size_t>(n * rows_->row_bytes()));
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

void SeriesWindows::copy_part(const Place& place, const RowBytes& rows, std::int64_t n,
                              std::span<const std::int32_t> columns, bool is_whole,
                              std::byte* out) const {
  const auto width = columns.size() * dtype_bytes(options_.dtype);
  rows_->each_stretch(place.entity, place.row, n, [&](std::int64_t row, std::int64_t some) {
    copy_rows(rows.row(row), some, columns, is_whole, out);
    out += static_cast<std::size_t>(some) * width;
  });
}

void SeriesWindows::copy_one(const Place& place, const RowBytes& rows,
                             const WindowParts& out) const {
  if (scaler_) return copy_transformed(place, rows, out);
  copy_part(place, rows, options_.window, options_.features, has_all_features_, out.x);
  const Place after{place.entity, place.row + options_.window};
  copy_part(after, rows, options_.horizon, options_.targets, has_all_targets_, out.y);
  if (!options_.future.empty())
    copy_part(after, rows, options_.horizon, options_.future, has_all_future_, out.future);
}

io::ByteRange SeriesWindows::range_of(const Place& place) const {
  const std::int64_t row_bytes = rows_->row_bytes();
  const SeriesRows::Stretch stretch = rows_->stretch(place.entity, place.row);
  return {stretch.row * row_bytes,
          std::min(stretch.n, options_.window + options_.horizon) * row_bytes};
}

void SeriesWindows::add_extents(const Place& place, std::vector<Extent>& extents) const {
  rows_->each_stretch(place.entity, place.row - lead_, lead_ + options_.window + options_.horizon,
                      [&](std::int64_t row, std::int64_t n) { extents.push_back({row, row + n}); });
}

void SeriesWindows::will_read(std::span<const std::int64_t> indices) const {
  if (direct_ != nullptr) return;
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
void SeriesWindows::prefetch(const Place& place, const RowBytes& rows) const {
  constexpr std::uintptr_t kPage = 4096, kLine = 64, kLines = 4;
  const SeriesRows::Stretch stretch = rows_->stretch(place.entity, place.row);
  const auto begin = reinterpret_cast<std::uintptr_t>(rows.row(stretch.row));
  const auto end =
      begin + static_cast<std::uintptr_t>(std::min(stretch.n, options_.window + options_.horizon) *
                                          rows_->row_bytes());
  for (std::uintptr_t at = begin; at < end; at = (at / kPage + 1) * kPage)
    for (std::uintptr_t line = at; line < std::min(end, at + kLines * kLine); line += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(line));
}

WindowParts SeriesWindows::after(const WindowParts& out, std::int64_t n) const {
  return {out.x + n * x_bytes(), out.y + n * y_bytes(),
          out.future == nullptr ? nullptr : out.future + n * future_bytes()};
}

void SeriesWindows::copy_places(std::span<const Place> places, const RowBytes& rows,
                                const WindowParts& out, int threads) const {
  const auto n = std::ssize(places);
  const std::int64_t bytes = (x_bytes() + y_bytes() + future_bytes()) * n;
  const std::int64_t n_pieces = std::clamp<std::int64_t>(
      std::min<std::int64_t>(bytes / kBytesWorthAThread, 4 * std::int64_t{threads}), 1,
      std::max<std::int64_t>(1, n));
  const auto copy_piece = [&](std::int64_t piece) {
    const std::int64_t end = (piece + 1) * n / n_pieces;
    for (std::int64_t i = piece * n / n_pieces; i < end; ++i) {
      if (i + kPrefetchedAhead < end)
        prefetch(places[static_cast<std::size_t>(i + kPrefetchedAhead)], rows);
      copy_one(places[static_cast<std::size_t>(i)], rows, after(out, i));
    }
  };
  if (threads <= 1 || n_pieces == 1)
    for (std::int64_t piece = 0; piece < n_pieces; ++piece) copy_piece(piece);
  else
    exec::shared_pool(threads)->parallel_for(n_pieces, copy_piece);
}

void SeriesWindows::copy_whole(std::span<const Place> places, const WindowParts& out,
                               int threads) const {
  const bool is_in_memory = is_mapped(rows_->value_file());
  const std::int64_t a_window = (lead_ + options_.window + options_.horizon) * rows_->row_bytes() +
                                rows_->value_file().costs().gap_bytes;
  const std::size_t together =
      is_in_memory ? std::max<std::size_t>(1, places.size())
                   : static_cast<std::size_t>(std::max<std::int64_t>(1, kFetchedBytes / a_window));
  for (std::size_t first = 0; first < places.size(); first += together) {
    const auto some = places.subspan(first, std::min(together, places.size() - first));
    std::vector<Extent> extents;
    if (!is_in_memory)
      for (const Place& at : some) add_extents(at, extents);
    copy_places(some, rows_->values(extents), after(out, static_cast<std::int64_t>(first)),
                threads);
  }
}

// The disk reads the windows after those that are copied.
void SeriesWindows::copy_directly(std::span<const Place> places, const WindowParts& out,
                                  int threads) const {
  const std::int64_t a_window = (lead_ + options_.window + options_.horizon) * rows_->row_bytes();
  const auto together = static_cast<std::size_t>(
      std::clamp<std::int64_t>(kDirectBytes / a_window, 1, kDirectWindows));
  std::deque<RowBytes> under_way;
  std::size_t begun = 0;
  for (std::size_t first = 0; first < places.size(); first += together) {
    while (begun < places.size() && under_way.size() <= kDirectAhead) {
      std::vector<Extent> extents;
      for (const Place& at : places.subspan(begun, std::min(together, places.size() - begun)))
        add_extents(at, extents);
      under_way.push_back(RowBytes::begin(*direct_, rows_->row_bytes(), extents));
      begun += together;
    }
    under_way.front().wait();
    copy_places(places.subspan(first, std::min(together, places.size() - first)), under_way.front(),
                after(out, static_cast<std::int64_t>(first)), threads);
    under_way.pop_front();
  }
}

void SeriesWindows::copy(std::span<const std::int64_t> indices, const WindowParts& out,
                         int threads) const {
  std::vector<Place> places(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) places[i] = place(indices[i]);
  if (direct_ != nullptr) {
    copy_directly(places, out, threads);
  } else {
    if (is_mapped(rows_->value_file()) && indices.size() > 1) will_read(indices);
    copy_whole(places, out, threads);
  }
  rows_->require_all_pages();
}

}  // namespace cellfeed::series
