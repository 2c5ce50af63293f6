#include "cellfeed/convert/cache/row_cache_place.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cctype>
#include <filesystem>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/io/cache_dir.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
namespace shard = format::shard;

// Files of a folder of caches are removed by their names alone.
bool is_removed_together(std::string_view) { return false; }

// In a folder of caches of many files there is one for each place that a file may lie in.
std::string folder_in(const std::string& dir, const std::string& file) {
  return fs::path(dir) / fmt::format("{}-{:016x}{}", fs::path(file).filename().string(),
                                     XXH3_64bits(file.data(), file.size()), kCacheSuffix);
}

[[noreturn]] void throw_no_folder(const std::string& why) {
  throw_error(ErrorKind::kIo, "",
              "{}, and neither XDG_CACHE_HOME nor HOME names a folder for rows: name one ({}, or "
              "CELLFEED_CACHE in the environment)",
              why, argument("cache_dir"));
}

io::OwnFolder make_at(const std::string& path) {
  const fs::path whole(path);
  io::make_directories(whole.parent_path().string());
  return io::OwnFolder::make(whole.parent_path().string(), whole.filename().string(),
                             is_removed_together);
}

}  // namespace

std::optional<io::OwnFolder> CacheFolder::find() const {
  const fs::path whole(path);
  if (!io::is_directory(whole.parent_path())) return std::nullopt;
  return io::OwnFolder::find(io::Directory(whole.parent_path().string()), whole.filename().string(),
                             is_removed_together);
}

io::OwnFolder CacheFolder::make() {
  io::OwnFolder folder = make_at(path);
  if (folder.is_believable(user)) return folder;
  leave_to_others();
  folder = make_at(path);
  folder.require_believable(user);
  return folder;
}

void CacheFolder::leave_to_others() {
  const std::string dir = io::user_cache_dir();
  if (dir.empty()) throw_no_folder(fmt::format("others may write to {}", path));
  std::string own = folder_in(dir, of_file);
  io::warn_of_cache(
      fmt::format("{}: is not used: it is a link, belongs to another user, or others may write to "
                  "it; rows are kept in {}",
                  path, own));
  path = std::move(own);
}

std::string CachePlace::rows() const { return fmt::format("{}/{}", caches.path, key); }
std::string CachePlace::note_name() const { return fmt::format("{}.json", key); }
std::string CachePlace::begun_name() const { return fmt::format(".{}.begun.json", key); }
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

CacheFolder cache_folder(const std::string& file, std::string dir, const std::string& matrix_text) {
  fs::path path = io::canonical(file);
  if (path.filename().empty()) path = path.parent_path();
  const std::string whole = path.string();
  dir = io::chosen_cache_dir(std::move(dir));
  if (dir.empty()) throw_no_folder(matrix_text);
  // Rows are mapped and locked.
  if (!io::is_local(dir))
    throw_error(ErrorKind::kInvalidArgument, dir,
                "{}, and its rows are kept in a folder of a local disk: name one ({}, or "
                "CELLFEED_CACHE in the environment)",
                matrix_text, argument("cache_dir"));
  CacheFolder folder;
  folder.path = folder_in(dir, whole);
  folder.of_file = whole;
  if (io::is_local(whole)) folder.user = io::status_of(whole).user;
  if (!io::is_believable_folder(folder.path, folder.user)) folder.leave_to_others();
  return folder;
}

CachePlace cache_place(const format::EntryStore& store, std::string dir) {
  const std::string& layer = store.info().layer;
  CachePlace place;
  place.caches = cache_folder(store.info().path, std::move(dir),
                              fmt::format("'{}' is stored {}", layer, store.storage()));
  const std::string& choice = store.info().choice;
  place.key = cache_key(choice.empty() ? layer : choice + "/" + layer);
  const std::string type = store.choice().choice.feature_type;
  if (!type.empty()) place.key.append(1, '+').append(cache_key(type));
  return place;
}

bool is_of_shards(std::string_view name) {
  return shard::generation_of(name) || name == shard::kManifestName ||
         name == shard::kPartialManifestName;
}

std::optional<io::OwnFolder> find_rows(const io::Directory& caches, const std::string& key) {
  return io::OwnFolder::find_within(caches, key, is_of_shards);
}

void remove_rows(const io::Directory& caches, const CachePlace& place) {
  caches.remove(place.note_name());
  caches.remove(place.begun_name());
  if (const auto rows = find_rows(caches, place.key)) rows->remove();
}

}  // namespace cellfeed::convert
