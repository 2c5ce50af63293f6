#include "cellfeed/convert/cache/packed_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/packed_shards.h"
#include "cellfeed/convert/cache/packed_writer.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kLookIntervalNs = 1'000'000'000;

}  // namespace

std::int64_t PackedLog::steady_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

PackedLog::PackedLog(PackedPlace place, FileVersion version, const PackedMatrix& matrix,
                     const PackedLogOptions& options)
    : place_(std::move(place)),
      version_(std::move(version)),
      matrix_(matrix),
      options_(options),
      index_(
          std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(matrix.n_rows))) {
  open_folder();
  const std::lock_guard lock(mutex_);
  scan();
}

PackedLog::~PackedLog() = default;

void PackedLog::open_folder() {
  const io::OwnFolder caches = place_.caches.make();
  folder_ = find_packed(caches.directory(), place_.name);
  if (!folder_) {
    folder_ = make_packed(caches.directory(), place_.name);
    remove_other_versions(caches.directory());
  }
  is_writable_ = folder_->is_writable();
  if (is_writable_) io::remove_leftovers_in(folder_->directory());
}

void PackedLog::remove_other_versions(const io::Directory& caches) const {
  for (const std::string& name : caches.names())
    if (name.starts_with(place_.of_matrix) && name != place_.name)
      if (const auto other = find_packed(caches, name)) remove_packed(*other);
}

// Of shards only all are of use: what is damaged there, or of another version, is written again.
void PackedLog::scan_shards() {
  const auto own = find_packed_shards(*folder_);
  if (!own || !own->directory().file_bytes(format::shard::kManifestName)) return;
  std::vector<PackedSegment> shards;
  try {
    shards = open_shard_segments(shards_dir(), matrix_, options_.verifies);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
  }
  if (shards.empty()) return;
  const std::size_t n_before = segments_.size();
  for (PackedSegment& shard : shards) add(std::move(shard));
  // Nobody needs them any more but who reads from them just now.
  for (std::size_t i = 0; i < n_before; ++i) segments_[i].cells.reset();
  has_shards_ = true;
}

bool PackedLog::has_whole_shards() const {
  try {
    return has_shards() && io::is_directory(shards_dir()) && are_listed_files_whole(shards_dir());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kCancelled) throw;
    return false;
  }
}

void PackedLog::forget_shards() {
  const std::lock_guard lock(mutex_);
  has_shards_ = false;
}

void PackedLog::take_shards(bool are_new) {
  try {
    require_same_file();
  } catch (const Error& error) {
    if (are_new || !error.was_not_read()) remove_packed_shards(*folder_);
    throw;
  }
  const std::lock_guard lock(mutex_);
  if (!has_shards()) scan_shards();
  if (has_shards()) folder_->empty();
}

void PackedLog::scan() {
  if (!has_shards()) scan_shards();
  if (is_complete()) return;
  std::set<std::string_view> known;
  for (const PackedSegment& segment : segments_) known.insert(segment.name);
  std::vector<PackedSegment> found;
  for (const std::string& name : segment_names(folder_->directory())) {
    if (known.contains(name)) continue;
    if (auto segment = open_segment(folder_->directory(), name, matrix_, options_.verifies))
      found.push_back(std::move(*segment));
  }
  for (PackedSegment& segment : found) add(std::move(segment));
}

void PackedLog::add(PackedSegment segment) {
  // Found by look_for_more before its writer came here.
  if (!segment.name.empty() &&
      std::ranges::find(segments_, segment.name, &PackedSegment::name) != segments_.end())
    return;
  const auto rows = std::exchange(segment.rows, {});
  segments_.push_back(std::move(segment));
  const auto number = static_cast<std::uint64_t>(segments_.size());
  // Shards take the place of segments; of segments the first that has a row.
  const bool replaces = segments_.back().name.empty();
  std::int64_t added = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::atomic<std::uint64_t>& entry = index_[rows[i]];
    const bool is_new = entry.load(std::memory_order_relaxed) == 0;
    if (is_new || replaces) entry.store(number << kRowBits | i, std::memory_order_release);
    if (is_new) ++added;
  }
  n_kept_.fetch_add(added, std::memory_order_relaxed);
}

std::shared_ptr<const format::shard::CellsFile> PackedLog::segment(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  return segments_[number].cells;
}

void PackedLog::look_for_more() {
  std::int64_t next = next_look_ns_.load(std::memory_order_relaxed);
  const std::int64_t now = steady_ns();
  if (now < next || !next_look_ns_.compare_exchange_strong(next, now + kLookIntervalNs)) return;
  look_now();
}

void PackedLog::look_now() {
  const std::lock_guard lock(mutex_);
  scan();
}

PackedWriter& PackedLog::writer() {
  return *writer_.get([this] { return std::make_unique<PackedWriter>(*this, matrix_.n_rows); });
}

bool PackedLog::claim(std::int64_t row) {
  return is_writable_ && index_[row].load(std::memory_order_relaxed) == 0 && writer().claim(row);
}

format::shard::EncodedRows PackedLog::spare() { return writer().spare(); }

void PackedLog::keep(std::vector<std::uint64_t> rows, format::shard::EncodedRows encoded) {
  if (!rows.empty()) writer().keep(std::move(rows), std::move(encoded));
}

void PackedLog::give_up(std::span<const std::uint64_t> rows, bool is_for_good) {
  if (!is_for_good) writer().give_up(rows);
}

void PackedLog::flush() {
  if (auto* writer = writer_.peek()) (*writer)->flush();
}

void PackedLog::drop(std::int64_t segment) {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::uint64_t>(segment) + 1;
  std::int64_t dropped = 0;
  for (std::int64_t row = 0; row < matrix_.n_rows; ++row) {
    if (index_[row].load(std::memory_order_relaxed) >> kRowBits != number) continue;
    index_[row].store(0, std::memory_order_release);
    ++dropped;
  }
  if (dropped == 0) return;
  n_kept_.fetch_sub(dropped, std::memory_order_relaxed);
  if (is_writable_) remove(segments_[segment]);
  warning_ = fmt::format(
      "{}: {} of the rows kept in '{}' are damaged and were removed; they are read from the file "
      "again",
      version_.path, dropped, place_.folder());
}

void PackedLog::remove(const PackedSegment& segment) {
  if (!segment.name.empty()) return remove_segment(folder_->directory(), segment.name);
  if (has_shards()) remove_shards_of(segment);
  has_shards_ = false;
}

// Another process may have written them anew, or may be about to.
void PackedLog::remove_shards_of(const PackedSegment& segment) {
  const auto lock = io::lock_unless_held(folder_->directory(), kPackedShardsLock);
  if (lock && lists_cells(shards_dir(), segment.cells->header().checksum))
    remove_packed_shards(*folder_);
}

void PackedLog::require_same_file() const { require_version(version_, "since it was opened"); }

std::string PackedLog::take_warning() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warning_, {});
}

void PackedLog::warn(std::string text) {
  const std::lock_guard lock(mutex_);
  warning_ = std::move(text);
}

}  // namespace cellfeed::convert
