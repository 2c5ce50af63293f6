#include "cellfeed/format/shard/shard_directory.h"

#include <algorithm>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/link_note.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_written_again(const std::string& path) {
  throw_error(ErrorKind::kCorruptData, path,
              "the shard directory was written again, or removed, since it was opened: open it "
              "again");
}

std::string name_of_owner(const Manifest& manifest, const FileEntry& file) {
  for (const ShardEntry& shard : manifest.shards)
    for (const FileEntry* entry : files_of(shard))
      if (entry->name == file.name) return fmt::format("shard {}", shard.shard);
  return file.name;
}

}  // namespace

ShardDirectory::ShardDirectory(std::string dir, ShardDirectoryOptions options)
    : dir_(std::move(dir)), options_(options), manifest_(read_manifest(dir_)) {
  if (!options_.reads_genes) return;
  Genes genes = read_genes(*this);
  axis_ = std::move(genes.axis);
  var_ = std::move(genes.var);
}

std::string ShardDirectory::name_path(const FileEntry& file) const {
  return (fs::path(dir_) / file.name).string();
}

std::string ShardDirectory::path_of(const FileEntry& file) const {
  const std::string path = name_path(file);
  if (io::exists(path)) return path;
  if (was_written_again()) throw_written_again(path);
  throw_error(
      ErrorKind::kNotFound, path,
      "missing{}: the manifest lists it; restore it from a copy, or convert the sources again",
      io::link_note(path));
}

std::shared_ptr<const MappedFile> ShardDirectory::map(const FileEntry& file) const {
  auto bytes = std::make_shared<const MappedFile>(path_of(file));
  // The size first: what no file of this directory has need not be read to be refused.
  if (options_.verifies)
    check_identity(file, has_file_of(bytes->size()) ? bytes->checked([&] {
      return checksum_bytes({reinterpret_cast<const std::byte*>(bytes->data()),
                             static_cast<std::size_t>(bytes->size())});
    })
                                                    : ~file.checksum);
  else if (bytes->size() != file.bytes)
    check_identity(file, ~file.checksum);
  return bytes;
}

bool ShardDirectory::has_file_of(std::int64_t bytes) const {
  if (manifest_.genes.bytes == bytes) return true;
  return std::ranges::any_of(manifest_.shards, [&](const ShardEntry& shard) {
    return shard.obs.bytes == bytes || shard.fixed_obs.bytes == bytes;
  });
}

void ShardDirectory::check_identity(const FileEntry& file, std::uint64_t found) const {
  if (found == file.checksum) return;
  const std::string path = name_path(file);
  for (const ShardEntry& shard : manifest_.shards)
    for (const FileEntry* other : files_of(shard))
      if (other->checksum == found && other->name != file.name)
        throw_error(ErrorKind::kCorruptData, path,
                    "this file is {} of shard {} under the name of {}: were files exchanged? "
                    "rename them back",
                    other->name, shard.shard, name_of_owner(manifest_, file));
  if (was_written_again()) throw_written_again(path);
  throw_error(ErrorKind::kCorruptData, path,
              "this is not the file that the manifest describes{}: it was damaged or replaced; "
              "restore it, or convert again",
              io::link_note(path));
}

bool ShardDirectory::was_written_again() const {
  try {
    return manifest_to_json(read_manifest(dir_)) != manifest_to_json(manifest_);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    return true;  // the manifest that was read is gone
  }
}

std::optional<ShardDirectory::MatrixFile> ShardDirectory::find_by_checksum(
    std::uint64_t checksum) const {
  for (const ShardEntry& shard : manifest_.shards) {
    if (shard.matrix.checksum == checksum) return MatrixFile{shard.shard, shard.matrix.name};
    for (const ShardMatrix& matrix : shard.matrices)
      if (matrix.file.checksum == checksum) return MatrixFile{shard.shard, matrix.file.name};
  }
  return std::nullopt;
}

}  // namespace cellfeed::format::shard
