// CachePlace: where the cached rows of a matrix lie, and which of the files there are ours.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cellfeed/format/entry_store.h"

namespace cellfeed::convert {

// What the name of a folder of caches ends with.
inline constexpr std::string_view kCacheSuffix = ".cellfeed";

// The folder of a file's caches, and the names in it that belong to one matrix.
struct CachePlace {
  std::filesystem::path folder;
  std::string key;

  std::string rows() const { return (folder / key).string(); }  // a shard directory
  std::string note() const;                                     // of what the file was
  std::string begun_note() const;  // the same, for as long as the rows are not whole
  std::string lock_name() const;
};

// dir, or what CELLFEED_CACHE names where that is "".
std::string chosen_cache_dir(std::string dir);
// The folder of all caches of the file at `path`: in `dir`, or in the one that CELLFEED_CACHE names
// where that is "", else beside the file. Throws kInvalidArgument where it would not be on a local
// disk; matrix_text says which matrix wants it.
std::filesystem::path cache_folder(const std::string& path, std::string dir,
                                   const std::string& matrix_text);
// One path component, whatever the layer is called.
std::string cache_key(const std::string& layer);

// dir: as RowCacheOptions::dir.
CachePlace cache_place(const format::EntryStore& store, std::string dir);

// True where some shard is there.
bool has_shards(const CachePlace& place);
// Throws kAlreadyExists where the place of the rows holds anything that no cache has.
void require_own_files(const CachePlace& place);
// Removes what a cache has there, and the folder of the rows unless something else is in it.
void remove_rows(const CachePlace& place);
void remove_if_empty(const std::string& folder);

}  // namespace cellfeed::convert
