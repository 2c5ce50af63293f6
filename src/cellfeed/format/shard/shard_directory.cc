#include "cellfeed/format/shard/shard_directory.h"

#include <algorithm>
#include <filesystem>

#include "cellfeed/base/error.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;

bool leads_outside(const fs::path& path, const fs::path& dir) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  return error || target.parent_path() != fs::canonical(dir, error) || error;
}

}  // namespace

ShardDirectory::ShardDirectory(std::string dir, GeneAxis axis)
    : dir_(std::move(dir)), manifest_(read_manifest(dir_)) {
  if (axis == GeneAxis::kSkip) return;
  path_of(manifest_.genes);
  Genes genes = read_genes(dir_, manifest_);
  axis_.names = std::move(genes.names);
  var_ = std::move(genes.var);
}

std::string ShardDirectory::path_of(const FileEntry& file) const {
  const fs::path path = fs::path(dir_) / file.name;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status))
    throw_error(
        ErrorKind::kNotFound, path.string(),
        "missing: the manifest lists it; restore it from a copy, or convert the sources again");
  if (fs::is_symlink(status) && leads_outside(path, dir_))
    throw_error(ErrorKind::kCorruptData, path.string(),
                "a link that leads out of the shard directory: replace it by the file itself");
  return path.string();
}

const ShardEntry* ShardDirectory::find_by_checksum(std::uint64_t checksum) const {
  const auto found =
      std::find_if(manifest_.shards.begin(), manifest_.shards.end(),
                   [&](const ShardEntry& shard) { return shard.matrix.checksum == checksum; });
  return found == manifest_.shards.end() ? nullptr : &*found;
}

}  // namespace cellfeed::format::shard
