#include "cellfeed/series/series_rows.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/series/gaps.h"

namespace cellfeed::series {
namespace {

// Times of an entity that are read at once where one of them is looked for; and entities that they
// are looked for in together.
constexpr std::int64_t kRowsToLookAt = 2048;
constexpr std::size_t kEntitiesToLookAt = 2048;
// Reads of windows under way, of all data sets of a process.
constexpr int kQueueDepth = 256;
constexpr int kReadThreads = 16;  // where the system has no such queue

}  // namespace

RowAccess row_access_from_name(std::string_view name) {
  if (name == "auto") return RowAccess::kAuto;
  if (name == "map") return RowAccess::kMap;
  if (name == "direct") return RowAccess::kDirect;
  throw_invalid("access must be auto, map or direct, not '{}'", name);
}

std::shared_ptr<const SeriesRows> SeriesRows::open(const std::string& dir, RowReading reading) {
  std::shared_ptr<SeriesRows> rows(new SeriesRows);
  rows->dir_ = dir;
  rows->reading_ = std::move(reading);
  std::tie(rows->metadata_, rows->entities_) = read_series(dir);
  const io::Directory directory(dir);
  const auto opened = [&](const char* name) {
    const std::string path = directory.path_of(name);
    auto source = io::open_file(path, {.random_access = true, .guarded = true});
    // It may have been replaced since its size was looked at; rows may have been appended.
    if (source->size() < rows->metadata_.file(name).bytes)
      throw_error(ErrorKind::kCorruptData, path, "has {} bytes where the metadata say {}",
                  source->size(), rows->metadata_.file(name).bytes);
    return source;
  };
  rows->values_ = opened(kFeaturesName);
  rows->times_ = opened(kTimesName);
  rows->open_directly(directory.path_of(kFeaturesName));
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

void SeriesRows::open_directly(const std::string& path) {
  const bool is_asked = reading_.access == RowAccess::kDirect;
  if (!io::is_local(path)) {
    if (is_asked)
      throw Error(ErrorKind::kUnsupported,
                  "is not on a local disk, and no cache lies between: take access=\"auto\"", path);
    return;
  }
  if (!is_asked && (reading_.access == RowAccess::kMap || !is_more_than_there_is(values_->size())))
    return;
  try {
    direct_ = io::open_file(path, {.access = io::FileAccess::kUring,
                                   .random_access = true,
                                   .direct = true,
                                   .queue_depth = kQueueDepth,
                                   .threads = kReadThreads});
  } catch (const Error& error) {
    if (is_asked || error.kind() != ErrorKind::kUnsupported) throw;
    return;  // a file system that has nothing but its cache
  }
  if (direct_->size() < metadata_.file(kFeaturesName).bytes)
    throw Error(ErrorKind::kCorruptData, "became shorter while it was opened", path);
}

const io::ByteSource* SeriesRows::direct_file(std::int64_t n_rows) const {
  if (reading_.access == RowAccess::kDirect) return direct_.get();
  return direct_ && is_more_than_there_is(n_rows * row_bytes()) ? direct_.get() : nullptr;
}

bool SeriesRows::is_more_than_there_is(std::int64_t n_bytes) const {
  const std::int64_t available = reading_.available_memory();
  return available > 0 && n_bytes > available;
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
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    return false;  // what is there now is no series, so not this one with more rows
  }
  known_changes_[which].store(changed, std::memory_order_relaxed);
  return true;
}

std::vector<double> SeriesRows::stored_values(std::int64_t row) const {
  const Extent one{row, row + 1};
  const RowBytes bytes = values({&one, 1});
  std::vector<double> found(metadata_.features.size());
  const auto read = [&]<typename T>(const T* stored) {
    std::copy_n(stored, found.size(), found.begin());
  };
  if (metadata_.dtype == DType::kF32)
    read(reinterpret_cast<const float*>(bytes.row(row)));
  else
    read(reinterpret_cast<const double*>(bytes.row(row)));
  return found;
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

std::int64_t SeriesRows::row_bytes() const {
  return std::ssize(metadata_.features) * static_cast<std::int64_t>(dtype_bytes(metadata_.dtype));
}

std::vector<std::int64_t> SeriesRows::times(std::span<const std::int64_t> rows) const {
  std::vector<Extent> extents;
  if (!is_mapped(*times_))
    for (const std::int64_t row : rows) extents.push_back({row, row + 1});
  const RowBytes bytes(*times_, sizeof(std::int64_t), extents);
  std::vector<std::int64_t> times(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(&times[i], bytes.row(rows[i]), sizeof(std::int64_t));
  return times;
}

void SeriesRows::each_step(std::int64_t entity, std::int64_t begin, std::int64_t end,
                           const std::function<void(std::int64_t, std::uint64_t)>& fn) const {
  constexpr std::int64_t kRowsTogether = std::int64_t{1} << 16;
  for (std::int64_t first = begin; first + 1 < end; first += kRowsTogether - 1) {
    std::vector<std::int64_t> rows;
    each_stretch(entity, first, std::min(kRowsTogether, end - first),
                 [&](std::int64_t row, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) rows.push_back(row + i);
                 });
    const std::vector<std::int64_t> at = times(rows);
    for (std::size_t i = 1; i < at.size(); ++i)
      fn(first + static_cast<std::int64_t>(i), step_between(at[i - 1], at[i]));
  }
}

std::vector<std::uint64_t> SeriesRows::steps_before(std::int64_t entity,
                                                    std::span<const std::int64_t> rows) const {
  std::vector<std::int64_t> both;
  for (const std::int64_t row : rows)
    for (const std::int64_t one : {row - 1, row}) both.push_back(stretch(entity, one).row);
  const std::vector<std::int64_t> at = times(both);
  std::vector<std::uint64_t> steps;
  for (std::size_t i = 0; i < at.size(); i += 2) steps.push_back(step_between(at[i], at[i + 1]));
  return steps;
}

std::int64_t SeriesRows::mapped_row_at(std::int64_t entity, std::int64_t time) const {
  const auto extents = entities_.extents(entity);
  const auto* const times = reinterpret_cast<const std::int64_t*>(times_->map().data());
  // The first extent that ends at this time or later.
  const auto extent = std::ranges::partition_point(
      extents, [&](const Extent& e) { return times[e.end - 1] < time; });
  const auto before = static_cast<std::size_t>(extents.data() - entities_.all_extents.data()) +
                      static_cast<std::size_t>(extent - extents.begin());
  if (extent == extents.end()) return entities_.n_rows(entity);
  return first_rows_[before] + (std::lower_bound(times + extent->begin, times + extent->end, time) -
                                (times + extent->begin));
}

// Of all entities at the same time, since each look takes a round trip: at the row in the middle,
// and at all that are left once they are few.
void SeriesRows::search_rows(std::span<const std::int64_t> entities, std::int64_t time,
                             std::span<std::int64_t> found) const {
  std::vector<std::int64_t> lows(entities.size(), 0);  // earlier than the time; found: not earlier
  for (std::size_t i = 0; i < entities.size(); ++i) found[i] = entities_.n_rows(entities[i]) - 1;
  for (;;) {
    std::vector<std::int64_t> rows;  // of the directory
    const auto each_look = [&](const auto& fn) {
      for (std::size_t i = 0; i < entities.size(); ++i) {
        const std::int64_t n = found[i] - lows[i] - 1;
        const std::int64_t first = n <= kRowsToLookAt ? lows[i] + 1 : lows[i] + (n + 1) / 2;
        const std::int64_t end = n <= kRowsToLookAt ? found[i] : first + 1;
        for (std::int64_t row = first; row < end; ++row) fn(i, row);
      }
    };
    each_look(
        [&](std::size_t i, std::int64_t row) { rows.push_back(stretch(entities[i], row).row); });
    if (rows.empty()) return;
    const std::vector<std::int64_t> at = times(rows);
    std::size_t k = 0;
    each_look([&](std::size_t i, std::int64_t row) {
      if (at[k++] < time)
        lows[i] = row;
      else
        found[i] = std::min(found[i], row);
    });
  }
}

std::vector<std::int64_t> SeriesRows::first_rows_at(std::span<const std::int64_t> entities,
                                                    std::int64_t time) const {
  std::vector<std::int64_t> found(entities.size());
  std::vector<std::size_t> within;  // whose times have to be looked at
  for (std::size_t i = 0; i < entities.size(); ++i) {
    const auto e = static_cast<std::size_t>(entities[i]);
    if (entities_.extents(entities[i]).empty() || time <= entities_.first_times[e])
      found[i] = 0;
    else if (time > entities_.last_times[e])
      found[i] = entities_.n_rows(entities[i]);
    else
      within.push_back(i);
  }
  if (is_mapped(*times_)) {
    for (const std::size_t i : within) found[i] = mapped_row_at(entities[i], time);
    return found;
  }
  for (std::size_t begin = 0; begin < within.size(); begin += kEntitiesToLookAt) {
    const auto some =
        std::span(within).subspan(begin, std::min(kEntitiesToLookAt, within.size() - begin));
    std::vector<std::int64_t> of, rows(some.size());
    for (const std::size_t i : some) of.push_back(entities[i]);
    search_rows(of, time, rows);
    for (std::size_t k = 0; k < some.size(); ++k) found[some[k]] = rows[k];
  }
  return found;
}

std::int64_t SeriesRows::rows_before(std::span<const std::int64_t> entities,
                                     std::int64_t time) const {
  std::int64_t n = 0;
  for (const std::int64_t rows : first_rows_at(entities, time)) n += rows;
  require_all_pages();
  return n;
}

}  // namespace cellfeed::series
