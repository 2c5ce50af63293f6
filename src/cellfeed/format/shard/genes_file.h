// genes.parquet: the gene axis in stored order, with every var column and the original position of
// each gene.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/matrix/csr.h"

namespace arrow {
class Table;
}

namespace cellfeed::format::shard {

class ShardDirectory;

inline constexpr const char* kOriginalPositionColumn = "_original_position";
inline constexpr const char* kRepeatedNameColumn = "_repeated_name";

// var: one row per stored gene, in stored order, "_index" first. original_position: of each stored
// gene in the source's axis. repeated: of the stored genes. Written atomically, replacing.
FileEntry write_genes(const io::Directory& dir, const std::shared_ptr<arrow::Table>& var,
                      std::span<const std::int64_t> original_position,
                      const matrix::RepeatedNames& repeated = {}, Generation generation = 0);

struct Genes {
  matrix::GeneAxis axis;
  std::vector<std::int64_t> original_position;
  std::shared_ptr<arrow::Table> var;  // "_index" first, then the var columns of the source
};
// Throws kCorruptData when the file is not what the manifest says.
Genes read_genes(const ShardDirectory& directory);

}  // namespace cellfeed::format::shard
