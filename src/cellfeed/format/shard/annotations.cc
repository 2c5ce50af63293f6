#include "cellfeed/format/shard/annotations.h"

#include <algorithm>
#include <vector>

#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::shard {
namespace {

constexpr std::int64_t kChecksumPieceBytes = std::int64_t{1} << 20;

std::uint64_t checksum_of(const io::ByteSource& source) {
  RunningChecksum checksum;
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min(kChecksumPieceBytes, source.size())));
  for (std::int64_t at = 0; at < source.size(); at += kChecksumPieceBytes) {
    const std::span<std::byte> part(
        piece.data(), static_cast<std::size_t>(std::min(kChecksumPieceBytes, source.size() - at)));
    source.read(at, part);
    checksum.add(part);
  }
  return checksum.value();
}

}  // namespace

FileEntry describe_annotations(const io::Directory& dir, Generation generation) {
  const std::string name = annotations_name(generation);
  const auto source = io::open_file(dir.path_of(name), {.access = io::FileAccess::kPread});
  return {.name = name, .bytes = source->size(), .checksum = checksum_of(*source)};
}

std::string checked_annotations(const ShardDirectory& directory) {
  const auto& entry = directory.manifest().annotations;
  if (!entry) return "";
  const std::string path = directory.path_of(*entry);
  const auto source = io::open_file(path, {.access = io::FileAccess::kPread});
  directory.check_identity(
      *entry, source->size() == entry->bytes ? checksum_of(*source) : ~entry->checksum);
  return path;
}

}  // namespace cellfeed::format::shard
