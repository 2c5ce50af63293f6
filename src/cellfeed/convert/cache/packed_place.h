// PackedPlace: where packed rows of one matrix are kept. What is read from a file that is another
// by then has another place, so that old rows are never taken for its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cellfeed/convert/cache/row_cache_place.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/seen_files.h"

namespace cellfeed::convert {

// What a file was when it was looked at, or all files of a folder.
struct FileVersion {
  std::string path;
  std::uint64_t mark = 0;       // of its size, its times and its number or ETag
  std::int64_t settled_ns = 0;  // the time at which it was unchanged for long enough
  std::shared_ptr<const io::SeenFiles> folder = {};
};

// Throws kNotFound, kIo, and kUnsupported where the server of a remote file tells no version.
FileVersion look_at_file(const std::string& path);
// Clocks of file systems tick: what was written to a moment ago may be again without a trace.
// Waits until that moment is past (2 s), and looks again. Throws kCorruptData where it was written
// to meanwhile.
FileVersion look_at_settled_file(const std::string& path);
// Of a store that was opened so that it looks at its files. Empty of others.
std::optional<FileVersion> version_of_folder(const format::RowStore& store);

// That all that was read up to now was read of this version: the file is looked at again; of a
// folder each file was as it was read. Throws kCorruptData, saying what to do.
void require_version(const FileVersion& version, const char* since);

struct PackedPlace {
  CacheFolder caches;
  std::string of_matrix;  // what the names of the folders of all versions begin with
  std::string name;       // of the folder of this version, in that of the caches
  std::uint64_t identity = 0;

  std::string folder() const { return caches.path + "/" + name; }
};

// var: of the table of genes that options name, else empty. dir: as RowCacheOptions::dir.
PackedPlace packed_place(const format::RowStore& store, const FileVersion& version,
                         const FileVersion& var, const std::string& dir);

// The folder of packed rows of this name, in that of the caches. Empty where there is none of ours.
std::optional<io::OwnFolder> find_packed(const io::Directory& caches, const std::string& name);
io::OwnFolder make_packed(const io::Directory& caches, const std::string& name);
// In it, the folder of the shards that all rows were written to.
std::optional<io::OwnFolder> find_packed_shards(const io::OwnFolder& packed);
io::OwnFolder make_packed_shards(const io::OwnFolder& packed);
void remove_packed_shards(const io::OwnFolder& packed);
void remove_packed(const io::OwnFolder& packed);

}  // namespace cellfeed::convert
