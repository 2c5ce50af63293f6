#include "cellfeed/series/windows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::series {
namespace {

// Less is copied before another thread has woken up.
constexpr std::int64_t kBytesWorthAThread = std::int64_t{1} << 18;

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
  rows->metadata_ = read_metadata(dir);
  rows->entities_ = read_entities(dir, rows->metadata_);
  const auto map = [&](const char* name) {
    const std::string path = (std::filesystem::path(dir) / name).string();
    auto source = io::open_local_file(path, {.random_access = true, .guarded = true});
    // It may have been replaced since its size was looked at.
    const auto file =
        std::ranges::find(rows->metadata_.files, std::string(name), &SeriesFile::name);
    if (source->size() != file->bytes)
      throw_error(ErrorKind::kCorruptData, path, "has {} bytes where the metadata say {}",
                  source->size(), file->bytes);
    return source;
  };
  rows->values_ = map(kFeaturesName);
  rows->times_ = map(kTimesName);
  return rows;
}

void SeriesRows::require_all_pages() const {
  for (const auto* file : {values_.get(), times_.get()}) {
    io::require_all_pages(*file);
    // What is cut off within a page reads as zeros.
    if (!file->is_unchanged())
      throw Error(ErrorKind::kIo,
                  "was written to while it was open, so that its rows are no longer known; open it "
                  "again",
                  file->path());
  }
}

std::int64_t SeriesRows::first_row_at(std::int64_t entity, std::int64_t time) const {
  const std::int64_t begin = entities_.begin_of(entity);
  const std::int64_t end = entities_.ends[static_cast<std::size_t>(entity)];
  if (begin == end || time <= entities_.first_times[static_cast<std::size_t>(entity)]) return begin;
  if (time > entities_.last_times[static_cast<std::size_t>(entity)]) return end;
  return std::lower_bound(times() + begin, times() + end, time) - times();
}

std::int64_t SeriesRows::rows_before(std::span<const std::int64_t> entities,
                                     std::int64_t time) const {
  std::int64_t n = 0;
  for (const std::int64_t entity : entities)
    n += first_row_at(entity, time) - entities_.begin_of(entity);
  require_all_pages();
  return n;
}

SeriesWindows::SeriesWindows(std::shared_ptr<const SeriesRows> rows, WindowOptions options)
    : rows_(std::move(rows)), options_(std::move(options)) {
  const SeriesMetadata& metadata = rows_->metadata();
  const auto n_columns = static_cast<std::int32_t>(metadata.features.size());
  if (options_.window < 1 || options_.horizon < 1 || options_.stride < 1 || options_.purge < 0)
    throw_invalid("window, horizon and stride must be at least 1, and purge at least 0");
  for (const auto* columns : {&options_.features, &options_.targets}) {
    if (columns->empty()) throw_invalid("a window needs features and a target");
    for (const std::int32_t column : *columns)
      if (column < 0 || column >= n_columns)
        throw_error(ErrorKind::kOutOfRange, "", "feature {} of {}", column, n_columns);
  }
  if (!is_float(options_.dtype)) throw_invalid("dtype must be float32 or float64");
  const CheckedSize span = CheckedSize(options_.window) + options_.horizon;
  if (!(CheckedSize(options_.window) * std::ssize(options_.features) * 8).fits() ||
      !(CheckedSize(options_.horizon) * std::ssize(options_.targets) * 8).fits() || !span.fits())
    throw_invalid("a window of {} rows is too large", options_.window);
  has_all_features_ = is_identity(options_.features, metadata.features.size());
  has_all_targets_ = is_identity(options_.targets, metadata.features.size());
  std::int64_t total = 0;
  ends_.reserve(options_.entities.size());
  first_rows_.reserve(options_.entities.size());
  for (const std::int64_t entity : options_.entities) {
    if (entity < 0 || entity >= rows_->entities().size())
      throw_error(ErrorKind::kOutOfRange, "", "entity {} of {}", entity, rows_->entities().size());
    const std::int64_t first = rows_->entities().begin_of(entity);
    std::int64_t begin = first;
    std::int64_t end = rows_->entities().ends[static_cast<std::size_t>(entity)];
    if (options_.until) end = rows_->first_row_at(entity, *options_.until);
    if (options_.from) {
      begin = rows_->first_row_at(entity, *options_.from);
      if (begin > first) begin = std::min(begin + options_.purge, end);
    }
    const std::int64_t n_rows = std::max<std::int64_t>(0, end - begin);
    const std::int64_t n =
        n_rows < span.value() ? 0 : (n_rows - span.value()) / options_.stride + 1;
    n_short_ += n == 0 ? 1 : 0;
    total += n;
    ends_.push_back(total);
    first_rows_.push_back(begin);
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

std::int64_t SeriesWindows::x_bytes() const {
  return options_.window * std::ssize(options_.features) *
         static_cast<std::int64_t>(dtype_bytes(options_.dtype));
}
std::int64_t SeriesWindows::y_bytes() const {
  return options_.horizon * std::ssize(options_.targets) *
         static_cast<std::int64_t>(dtype_bytes(options_.dtype));
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

void SeriesWindows::copy_one(std::int64_t row, std::byte* x, std::byte* y) const {
  copy_rows(row, options_.window, options_.features, has_all_features_, x);
  copy_rows(row + options_.window, options_.horizon, options_.targets, has_all_targets_, y);
}

void SeriesWindows::copy(std::span<const std::int64_t> indices, std::byte* x, std::byte* y,
                         int threads) const {
  std::vector<std::int64_t> rows(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) rows[i] = place(indices[i]).row;
  const std::int64_t bytes = (x_bytes() + y_bytes()) * std::ssize(indices);
  const std::int64_t n_pieces = std::clamp<std::int64_t>(
      std::min<std::int64_t>(bytes / kBytesWorthAThread, 4 * std::int64_t{threads}), 1,
      std::max<std::int64_t>(1, std::ssize(indices)));
  const auto copy_piece = [&](std::int64_t piece) {
    const auto n = std::ssize(indices);
    for (std::int64_t i = piece * n / n_pieces; i < (piece + 1) * n / n_pieces; ++i)
      copy_one(rows[static_cast<std::size_t>(i)], x + i * x_bytes(), y + i * y_bytes());
  };
  if (threads <= 1 || n_pieces == 1)
    for (std::int64_t piece = 0; piece < n_pieces; ++piece) copy_piece(piece);
  else
    exec::shared_pool(threads)->parallel_for(n_pieces, copy_piece);
  rows_->require_all_pages();
}

}  // namespace cellfeed::series
