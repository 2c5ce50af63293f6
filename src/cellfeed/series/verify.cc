#include "cellfeed/series/verify.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/placed_file.h"

namespace cellfeed::series {
namespace {

std::string path_of(const std::string& dir, const std::string& name) {
  return io::Directory(dir).path_of(name);
}

SeriesDamage damage_of(const Error& error) {
  return {std::filesystem::path(error.path()).filename().string(), 0, 0, error.what()};
}

// Thread-safe.
class Verification {
 public:
  Verification(const std::string& dir, std::int64_t total,
               const std::function<void(std::int64_t, std::int64_t)>& progress)
      : dir_(dir), total_(total), progress_(progress) {}

  void check_file(const SeriesFile& file) {
    const std::string bytes = io::read_small_file(path_of(dir_, file.name), file.bytes);
    compare(file.name, 0, std::as_bytes(std::span(bytes)), file.checksum);
  }
  void check_segments(const SeriesFile& file, std::span<const std::uint64_t> checksums,
                      exec::ThreadPool& pool) {
    const auto source =
        io::open_file(path_of(dir_, file.name), {.access = io::FileAccess::kPread, .threads = 1});
    pool.parallel_for(static_cast<std::int64_t>(checksums.size()), [&](std::int64_t i) {
      const std::int64_t begin = i * kSegmentBytes;
      std::vector<std::byte> bytes(
          static_cast<std::size_t>(std::min(kSegmentBytes, file.bytes - begin)));
      source->read(begin, bytes);
      compare(file.name, begin, bytes, checksums[static_cast<std::size_t>(i)]);
    });
  }
  void add(SeriesDamage damage) {
    const std::lock_guard lock(mutex_);
    damages_.push_back(std::move(damage));
  }
  std::vector<SeriesDamage> finish() {
    std::ranges::stable_sort(damages_, {},
                             [](const SeriesDamage& d) { return std::pair(d.file, d.begin); });
    return std::move(damages_);
  }

 private:
  void compare(const std::string& file, std::int64_t begin, std::span<const std::byte> bytes,
               std::uint64_t expected) {
    const std::uint64_t found = format::shard::checksum_bytes(bytes);
    const auto end = begin + static_cast<std::int64_t>(bytes.size());
    if (found != expected)
      add({file, begin, end,
           fmt::format("the checksum is {:016x} where {:016x} was written", found, expected)});
    const std::lock_guard lock(mutex_);
    done_ += static_cast<std::int64_t>(bytes.size());
    if (progress_) progress_(done_, total_);
  }

  const std::string& dir_;
  const std::int64_t total_;
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  std::mutex mutex_;
  std::int64_t done_ = 0;              // guarded by mutex_
  std::vector<SeriesDamage> damages_;  // guarded by mutex_
};

}  // namespace

std::vector<SeriesDamage> verify_series(
    const std::string& dir, exec::ThreadPool& pool,
    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  SeriesMetadata metadata;
  try {
    metadata = read_metadata(dir);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorruptData) throw;
    return {damage_of(error)};
  }
  std::int64_t total = 0;
  for (const SeriesFile& file : metadata.files) total += file.bytes;
  Verification verification(dir, total, progress);
  const auto file = [&](const char* name) -> const SeriesFile& { return metadata.file(name); };
  for (const char* name : {kEntitiesName, kScalerName, kChecksumsName})
    verification.check_file(file(name));
  const SeriesFile& features = file(kFeaturesName);
  const SeriesFile& times = file(kTimesName);
  const std::string text =
      io::read_small_file(path_of(dir, file(kChecksumsName).name), file(kChecksumsName).bytes);
  const std::int64_t n = n_segments(features.bytes);
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(n + n_segments(times.bytes)));
  if (text.size() != checksums.size() * 8) {
    verification.add({kChecksumsName, 0, 0, "has not one checksum a segment"});
    return verification.finish();
  }
  std::memcpy(checksums.data(), text.data(), text.size());
  verification.check_segments(features, std::span(checksums).first(static_cast<std::size_t>(n)),
                              pool);
  verification.check_segments(times, std::span(checksums).subspan(static_cast<std::size_t>(n)),
                              pool);
  std::vector<SeriesDamage> damages = verification.finish();
  if (!damages.empty()) return damages;
  try {
    require_same_entities(dir);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorruptData) throw;
    return {damage_of(error)};
  }
  return {};
}

}  // namespace cellfeed::series
