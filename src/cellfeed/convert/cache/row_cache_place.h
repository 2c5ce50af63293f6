// CachePlace: where the cached rows of a matrix lie, and which of the files there are ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cellfeed/format/entry_store.h"
#include "cellfeed/io/own_folder.h"

namespace cellfeed::convert {

// What the name of a folder of caches ends with.
inline constexpr std::string_view kCacheSuffix = ".cellfeed";

// The folder of all caches of a file.
struct CacheFolder {
  std::string path;
  std::string of_file = {};  // its whole path
  std::uint32_t user = 0;    // that it belongs to

  // Empty where there is none of ours.
  std::optional<io::OwnFolder> find() const;
  // As cache_folder(), also where it shows once it is made that others may write to it. Throws
  // kAlreadyExists where something else is there, and kIo where it cannot be made.
  io::OwnFolder make();
  // Goes on in the cache folder of this user, with a warning. Throws kIo where there is none.
  void leave_to_others();
};

// The folder of a file's caches, and the names in it that belong to one matrix.
struct CachePlace {
  CacheFolder caches;
  std::string key;

  std::string rows() const;        // a shard directory
  std::string note_name() const;   // of what the file was
  std::string begun_name() const;  // the same, for as long as the rows are not whole
  std::string lock_name() const;
};

// The cache folder of the file at `path`, in io::chosen_cache_dir(dir). Calls leave_to_others()
// where another user than root, this one and the file's owner may have written to it. Throws kIo
// without a dir, and kInvalidArgument for one that is not on a local disk; matrix_text names the
// matrix.
CacheFolder cache_folder(const std::string& path, std::string dir, const std::string& matrix_text);
// One path component, whatever the layer is called.
std::string cache_key(const std::string& layer);

// dir: as RowCacheOptions::dir.
CachePlace cache_place(const format::EntryStore& store, std::string dir);

// Whether a shard directory has files of this name.
bool is_of_shards(std::string_view name);
// The folder of the rows, in that of the caches. Empty where there is none of ours.
std::optional<io::OwnFolder> find_rows(const io::Directory& caches, const std::string& key);
// Removes what a cache has there, and the folder of the rows unless something else is in it.
void remove_rows(const io::Directory& caches, const CachePlace& place);

}  // namespace cellfeed::convert
