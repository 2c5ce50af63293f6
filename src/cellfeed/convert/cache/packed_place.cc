#include "cellfeed/convert/cache/packed_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/wall_clock.h"
#include "cellfeed/convert/cache/packed_segment.h"
#include "cellfeed/convert/cache/source_note.h"
#include "cellfeed/format/shard/checksum.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

// Of the folder and of what lies in it.
constexpr std::uint64_t kPlaceVersion = 2;
constexpr const char* kShards = "shards";

template <std::size_t n>
std::uint64_t hash(const std::array<std::uint64_t, n>& numbers) {
  return shard::checksum_bytes(std::as_bytes(std::span(numbers)));
}

// Of what was chosen, of the path of the table of genes, and of the names.
std::uint64_t hash_texts(const std::string& choice, const std::string& var,
                         const matrix::GeneAxis& genes) {
  shard::RunningChecksum checksum;
  const auto add = [&](const std::string& text) {
    checksum.add(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  add(choice);
  add(var);
  for (const std::string& name : genes.names) add(name);
  return checksum.value();
}

}  // namespace

FileVersion look_at_file(const std::string& path) {
  const io::PathStatus status = io::status_of(path);
  if (!status.is_there())
    throw_error(ErrorKind::kNotFound, path, "is gone since it was opened; open it again");
  const bool is_local = io::is_local(path);
  if (!is_local && status.modified_ns <= 0)
    throw_error(ErrorKind::kUnsupported, path,
                "the server does not say when it was changed, so that rows kept of it could not be "
                "told from old ones: read it without cache=\"rows\"");
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  // The device of a local file is another one on another machine; of a remote one it is the ETag.
  return {.path = path,
          .mark = hash(std::array{number(status.size), number(status.modified_ns),
                                  number(status.changed_ns), status.inode,
                                  is_local ? 0 : status.device}),
          .settled_ns = std::max(status.modified_ns, status.changed_ns) + io::kSettledNs};
}

FileVersion look_at_settled_file(const std::string& path) {
  FileVersion version = look_at_file(path);
  const std::int64_t wait_ns = version.settled_ns - wall_clock_ns();
  // A time in the future is a wrong clock's, and no reason to wait for long.
  if (wait_ns <= 0) return version;
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(wait_ns, io::kSettledNs)));
  if (look_at_file(path).mark != version.mark)
    throw_error(ErrorKind::kCorruptData, path,
                "the file is being written to; open it once it is whole");
  return version;
}

std::optional<FileVersion> version_of_folder(const format::RowStore& store) {
  auto seen = store.seen_files();
  if (!seen) return std::nullopt;
  const std::uint64_t mark = seen->mark();
  return FileVersion{.path = store.info().path, .mark = mark, .folder = std::move(seen)};
}

void require_version(const FileVersion& version, const char* since) {
  if (!version.folder) {
    if (look_at_file(version.path).mark == version.mark) return;
    throw_error(ErrorKind::kCorruptData, version.path,
                "the file changed {}; open it again once it is whole", since);
  }
  if (const std::string name = version.folder->changed(); !name.empty())
    throw_error(ErrorKind::kCorruptData, version.path,
                "'{}' changed {}; open the store again once it is whole", name, since);
}

PackedPlace packed_place(const format::RowStore& store, const FileVersion& version,
                         const FileVersion& var, const std::string& dir) {
  const format::StoreInfo& info = store.info();
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t matrix = hash(std::array{kPlaceVersion, number(info.n_cols),
                                               hash_texts(info.choice, var.path, store.genes())});
  PackedPlace place;
  place.identity = hash(std::array{matrix, version.mark, var.mark, number(info.n_rows),
                                   static_cast<std::uint64_t>(info.value_dtype)});
  place.caches = cache_folder(info.path, dir, fmt::format("'{}' is compressed", info.layer));
  place.of_matrix = fmt::format("{}.packed-{:016x}-", cache_key(info.layer), matrix);
  place.name = fmt::format("{}{:016x}", place.of_matrix, place.identity);
  return place;
}

std::optional<io::OwnFolder> find_packed(const io::Directory& caches, const std::string& name) {
  return io::OwnFolder::find_within(caches, name, is_segment_file);
}

io::OwnFolder make_packed(const io::Directory& caches, const std::string& name) {
  return io::OwnFolder::make_within(caches, name, is_segment_file);
}

std::optional<io::OwnFolder> find_packed_shards(const io::OwnFolder& packed) {
  return io::OwnFolder::find_within(packed.directory(), kShards, is_of_shards);
}

io::OwnFolder make_packed_shards(const io::OwnFolder& packed) {
  return io::OwnFolder::make_within(packed.directory(), kShards, is_of_shards);
}

void remove_packed_shards(const io::OwnFolder& packed) {
  if (const auto shards = find_packed_shards(packed)) shards->remove();
}

void remove_packed(const io::OwnFolder& packed) {
  remove_packed_shards(packed);
  packed.remove();
}

}  // namespace cellfeed::convert
