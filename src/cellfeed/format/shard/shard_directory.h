// ShardDirectory: what the stores of one directory share: the manifest, the gene axis, and where
// files lie. Thread-safe: immutable once open.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/matrix/csr.h"

namespace arrow {
class Table;
}  // namespace arrow

namespace cellfeed::format::shard {

class MappedFile;

struct ShardDirectoryOptions {
  // Unless set, genes() is empty and var() null: for looking at a directory whose files may be
  // damaged.
  bool reads_genes = true;
  // Files are compared with the manifest when they are first used.
  bool verifies = true;
};

class ShardDirectory {
 public:
  explicit ShardDirectory(std::string dir, ShardDirectoryOptions options = {});

  const std::string& dir() const { return dir_; }
  bool verifies() const { return options_.verifies; }
  const Manifest& manifest() const { return manifest_; }
  const matrix::GeneAxis& genes() const { return axis_; }
  const std::shared_ptr<arrow::Table>& var() const { return var_; }

  // Where a file of the manifest lies, there or not.
  std::string name_path(const FileEntry& file) const;
  // The same. Throws kNotFound when it is missing (naming the shard and the remedy). Links are
  // followed: checksums tell whether it is the file.
  std::string path_of(const FileEntry& file) const;
  // Its bytes, mapped, and compared with the manifest as they are mapped: what has the file's name
  // later makes no difference. Throws what path_of and check_identity throw.
  std::shared_ptr<const MappedFile> map(const FileEntry& file) const;
  // Throws kCorruptData unless the checksum found is the manifest's, saying why where that can be
  // known: exchanged files, or a directory that was written again since it was opened.
  void check_identity(const FileEntry& file, std::uint64_t found) const;
  // The file of some shard's matrix that has this checksum, and the number of the shard, for saying
  // which files were exchanged; empty when there is none.
  struct MatrixFile {
    std::int64_t shard = 0;
    std::string name;
  };
  std::optional<MatrixFile> find_by_checksum(std::uint64_t checksum) const;

 private:
  // True where a file of tables has this size.
  bool has_file_of(std::int64_t bytes) const;
  bool was_written_again() const;

  std::string dir_;
  ShardDirectoryOptions options_;
  Manifest manifest_;
  matrix::GeneAxis axis_;
  std::shared_ptr<arrow::Table> var_;
};

}  // namespace cellfeed::format::shard
