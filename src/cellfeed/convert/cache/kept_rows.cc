#include "cellfeed/convert/cache/kept_rows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/base/hash_text.h"
#include "cellfeed/convert/cache/packed_place.h"
#include "cellfeed/convert/cache/packed_segment.h"
#include "cellfeed/convert/cache/packed_shards.h"
#include "cellfeed/convert/cache/row_cache_place.h"
#include "cellfeed/convert/cache/source_note.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
namespace shard = format::shard;

constexpr std::string_view kPackedMark = ".packed-";
constexpr std::int64_t kMostOfNote = 1 << 24;

// The name of the file that a folder of caches is of; empty where it is no such folder.
std::string file_of(const std::string& folder_name) {
  if (!folder_name.ends_with(kCacheSuffix)) return "";
  std::string name = folder_name.substr(0, folder_name.size() - kCacheSuffix.size());
  // In a cache_dir a hash of the file's path stands behind its name.
  const auto dash = name.rfind('-');
  if (dash != std::string::npos && dash > 0 &&
      is_hash_text(std::string_view(name).substr(dash + 1)))
    name.resize(dash);
  return name;
}

void add_files(const io::Directory& folder, KeptRows& rows) {
  for (const std::string& name : folder.names()) {
    const io::PathStatus status = io::status_of(folder.path_of(name));
    rows.written_ns = std::max(rows.written_ns, status.modified_ns);
    if (status.is_file()) rows.bytes += status.size;
  }
}

CachePlace place_of(const KeptRows& rows) {
  return {{fs::path(rows.folder).parent_path().string()}, rows.matrix};
}

bool is_note(const io::Directory& caches, const std::string& name) {
  return caches.file_bytes(name) &&
         note_from_json(io::read_small_file(caches.path_of(name), kMostOfNote));
}

// "KEY.packed-HASH-HASH": the length of KEY; else 0.
std::size_t packed_key_size(std::string_view name) {
  const auto mark = name.rfind(kPackedMark);
  if (mark == std::string_view::npos) return 0;
  const std::string_view hashes = name.substr(mark + kPackedMark.size());
  return hashes.size() == 2 * kHashDigits + 1 && is_hash_text(hashes.substr(0, kHashDigits)) &&
                 hashes[kHashDigits] == '-' && is_hash_text(hashes.substr(kHashDigits + 1))
             ? mark
             : 0;
}

std::optional<KeptRows> rows_at(const io::Directory& caches, const std::string& name) {
  KeptRows rows;
  rows.folder = caches.path_of(name);
  rows.of_file = file_of(fs::path(caches.path()).filename().string());
  const std::size_t size = packed_key_size(name);
  rows.matrix = size > 0 ? name.substr(0, size) : name;
  const auto folder = size > 0 ? find_packed(caches, name) : find_rows(caches, name);
  if (name.starts_with(".") || !folder) return std::nullopt;
  if (size > 0) {
    if (const auto shards = find_packed_shards(*folder)) add_files(shards->directory(), rows);
  } else {
    rows.kind = KeptRows::Kind::kRows;
    const CachePlace place = place_of(rows);
    if (!is_note(caches, place.note_name()) && !is_note(caches, place.begun_name()))
      return std::nullopt;
  }
  add_files(folder->directory(), rows);
  return rows;
}

// What goes while it is looked at, and what may not be read, is not listed.
void add_rows(const CacheFolder& of_file, std::vector<KeptRows>& all) {
  try {
    const auto caches = of_file.find();
    if (!caches) return;
    if (!caches->is_believable(::geteuid()))
      io::warn_of_cache(
          fmt::format("{}: belongs to another user, or others may write to it: rows there are read "
                      "for files of that user alone, if at all",
                      of_file.path));
    for (const std::string& name : caches->directory().names())
      if (auto rows = rows_at(caches->directory(), name)) all.push_back(std::move(*rows));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound && error.kind() != ErrorKind::kIo) throw;
  }
}

void add_damages(const std::string& dir, const shard::VerifyProgress& progress,
                 std::vector<std::string>& found) {
  for (const shard::Damage& damage : shard::verify_shard_dir(dir, progress))
    found.push_back(describe(damage));
}

}  // namespace

std::vector<KeptRows> kept_rows(const std::string& dir) {
  const fs::path path(io::canonical(dir));
  const std::string whole = path.filename().empty() ? path.parent_path().string() : path.string();
  std::vector<KeptRows> all;
  // A cache_dir may be called like a folder beside a file.
  if (!file_of(fs::path(whole).filename().string()).empty()) add_rows({whole}, all);
  for (const std::string& name : io::Directory(whole).names())
    if (!file_of(name).empty()) add_rows({fmt::format("{}/{}", whole, name)}, all);
  std::ranges::stable_sort(all, {}, &KeptRows::written_ns);
  return all;
}

std::vector<std::string> damages_of(
    const KeptRows& rows, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  std::vector<std::string> found;
  if (rows.kind == KeptRows::Kind::kRows) {
    const CachePlace place = place_of(rows);
    if (io::exists(fmt::format("{}/{}", place.caches.path, place.note_name())))
      add_damages(rows.folder, progress, found);
    return found;  // what is not whole yet is not read by anyone
  }
  const io::Directory directory(rows.folder);
  for (const std::string& name : segment_names(directory)) {
    try {
      for (std::string& damage : segment_damages(directory, name, progress))
        found.push_back(std::move(damage));
    } catch (const Error& error) {
      // Once all rows are shards, the segments go.
      if (error.kind() == ErrorKind::kCancelled) throw;
      if (std::ranges::count(segment_names(directory), name) > 0) found.push_back(error.what());
    }
  }
  if (const std::string shards = rows.folder + "/shards";
      io::exists(fmt::format("{}/{}", shards, shard::kManifestName)))
    add_damages(shards, progress, found);
  return found;
}

namespace {

// False where some process writes it just now.
bool remove_unless_written(const io::Directory& caches, const KeptRows& rows) {
  if (rows.kind == KeptRows::Kind::kRows) {
    const CachePlace place = place_of(rows);
    const auto lock = io::lock_unless_held(caches, place.lock_name());
    if (lock) remove_rows(caches, place);
    return lock != nullptr;
  }
  const auto packed = find_packed(caches, fs::path(rows.folder).filename().string());
  if (!packed) return true;
  const auto lock = io::lock_unless_held(packed->directory(), kPackedShardsLock);
  if (lock) remove_packed(*packed);
  return lock != nullptr;
}

}  // namespace

bool remove_kept(const KeptRows& rows) {
  try {
    const auto caches = place_of(rows).caches.find();
    if (!caches) return true;
    if (!remove_unless_written(caches->directory(), rows)) return false;
    caches->remove_if_empty();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;  // else another one removed it
  }
  return true;
}

}  // namespace cellfeed::convert
