#include "cellfeed/convert/cache/row_cache_place.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
namespace shard = format::shard;

bool is_of_shards(const std::string& name) {
  return shard::generation_of(name) || name == shard::kManifestName ||
         name == shard::kPartialManifestName || io::is_temp_name(name) || name == ".lock" ||
         name == ".lock.held";
}

}  // namespace

std::string CachePlace::note() const { return (folder / fmt::format("{}.json", key)).string(); }
std::string CachePlace::begun_note() const {
  return (folder / fmt::format(".{}.begun.json", key)).string();
}
std::string CachePlace::lock_name() const { return fmt::format(".{}.lock", key); }

std::string cache_key(const std::string& layer) {
  std::string key;
  for (const char c : layer) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    if (is_plain || c == '/')
      key.push_back(is_plain ? c : '.');
    else
      key.append(fmt::format("%{:02x}", static_cast<unsigned char>(c)));
  }
  return key;
}

std::string chosen_cache_dir(std::string dir) {
  if (const char* named = std::getenv("CELLFEED_CACHE"); dir.empty() && named != nullptr)
    dir = std::string(named);
  return dir;
}

// In `dir` there is one for each place that a file may lie in.
fs::path cache_folder(const std::string& file, std::string dir, const std::string& matrix_text) {
  fs::path path = io::canonical(file);
  if (path.filename().empty()) path = path.parent_path();
  const std::string whole = path.string();
  dir = chosen_cache_dir(std::move(dir));
  // Rows are mapped and locked, and nobody expects files beside those in a bucket.
  if (const std::string& where = dir.empty() ? whole : dir; !io::is_local(where))
    throw_error(ErrorKind::kInvalidArgument, where,
                "{}, and its rows are kept in a folder of a local disk: name one (cache_dir= of "
                "cellfeed.open, --cache-dir, or CELLFEED_CACHE in the environment)",
                matrix_text);
  if (dir.empty()) return fmt::format("{}{}", whole, kCacheSuffix);
  return fs::path(dir) / fmt::format("{}-{:016x}{}", path.filename().string(),
                                     XXH3_64bits(whole.data(), whole.size()), kCacheSuffix);
}

CachePlace cache_place(const format::EntryStore& store, std::string dir) {
  const std::string& layer = store.info().layer;
  CachePlace place;
  place.folder = cache_folder(store.info().path, std::move(dir),
                              fmt::format("'{}' is stored {}", layer, store.storage()));
  place.key = cache_key(layer);
  const std::string type = store.choice().feature_type;
  if (!type.empty()) place.key.append(1, '+').append(cache_key(type));
  return place;
}

bool has_shards(const CachePlace& place) {
  if (!io::is_directory(place.rows())) return false;
  return std::ranges::any_of(io::Directory(place.rows()).names(), [](const std::string& name) {
    return shard::generation_of(name) && name.ends_with(".cells");
  });
}

void require_own_files(const CachePlace& place) {
  const io::PathStatus status = io::status_of(place.rows());
  if (!status.is_there()) return;
  if (!status.is_directory())
    throw_error(ErrorKind::kAlreadyExists, place.rows(), "is no folder, and is not replaced");
  for (const std::string& name : io::Directory(place.rows()).names())
    // Others are of file systems and desktops, and stay where they are.
    if (!name.starts_with(".") && !is_of_shards(name))
      throw_error(ErrorKind::kAlreadyExists, place.rows(),
                  "holds a file that is not one of cached rows, so nothing there is replaced; move "
                  "it away: '{}'",
                  name);
}

void remove_rows(const CachePlace& place) {
  io::remove(place.note());
  io::remove(place.begun_note());
  if (!io::is_directory(place.rows())) return;
  const io::Directory dir(place.rows());
  for (const std::string& name : dir.names())
    if (is_of_shards(name)) dir.remove(name);
  remove_if_empty(place.rows());
}

void remove_if_empty(const std::string& folder) {
  if (io::is_directory(folder) && io::Directory(folder).names().empty()) io::remove(folder);
}

}  // namespace cellfeed::convert
