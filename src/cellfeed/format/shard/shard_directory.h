// ShardDirectory: what the stores of one directory share: the manifest, the gene axis, and where
// files lie. Thread-safe: immutable once open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::format::shard {

class ShardDirectory {
 public:
  enum class GeneAxis { kRead, kSkip };
  // kSkip leaves genes() empty and var() null: for looking at a directory whose files may be
  // damaged.
  explicit ShardDirectory(std::string dir, GeneAxis axis = GeneAxis::kRead);

  const std::string& dir() const { return dir_; }
  const Manifest& manifest() const { return manifest_; }
  const matrix::GeneAxis& genes() const { return axis_; }
  const std::shared_ptr<arrow::Table>& var() const { return var_; }

  // The path of a file of the manifest. Throws kNotFound when it is missing (naming the shard and
  // the remedy) and kCorruptData when it is a link that leads out of the directory.
  std::string path_of(const FileEntry& file) const;
  // The shard whose matrix has this checksum, for saying which files were exchanged; null when
  // there is none.
  const ShardEntry* find_by_checksum(std::uint64_t checksum) const;

 private:
  std::string dir_;
  Manifest manifest_;
  matrix::GeneAxis axis_;
  std::shared_ptr<arrow::Table> var_;
};

}  // namespace cellfeed::format::shard
