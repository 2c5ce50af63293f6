// append_to_shards: cells of further sources behind those of a finished shard directory, in new
// shards. Nothing that is there is written again but the manifest, which comes last: killed, or
// failing, at any moment it leaves the old state or the new one.
//
// Thread contract: as convert_to_shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::convert {

enum class ExtraGenes {
  kRefuse,
  kDrop,  // each cell keeps its total over all genes of its source
};

struct AppendOptions {
  // output_dir: the shards. What they decide (layout, gene_order, existing, base) is not looked at.
  // shard_size: 0: as theirs.
  ConvertOptions convert;
  ExtraGenes extra_genes = ExtraGenes::kRefuse;  // that sources have and the shards do not
  bool refuse_missing_genes = false;  // kNoSuchKey where a source lacks genes; else they are zeros
  // Also sources whose cells the shards hold already, or whose values are of another kind.
  bool is_forced = false;
  bool resumes = false;  // continue an append that was stopped; else begin anew
};

// How files are opened whose cells are to go behind those of shards: the genes, the layers and obsm
// of the shards, and the layer that these hold of their sources.
struct MatricesOfShards {
  std::string layer{};
  std::vector<std::string> layers{}, obsm{};
  std::vector<std::string> genes{};
};
// layer: of the new files; empty: the one that the shards hold of theirs. Throws what reading a
// shard directory throws, and kInvalidArgument where they hold several of those.
MatricesOfShards matrices_to_append(const std::string& dir, const std::string& layer);

struct AppendResult {
  ConvertResult shards;  // the directory as it is now
  std::int64_t n_cells_added = 0;
  std::int64_t n_shards_added = 0;
  std::int64_t n_missing_genes = 0;  // of the source that lacks most
  std::string missing_genes_text;    // what to say of them; empty where all are found
  std::vector<std::string> warnings;
};

// Throws, before anything is written: kNotFound (no finished shards), kAlreadyExists (a source that
// the shards hold already, another writer), kInvalidArgument (other values, genes, columns or
// layers), kNoSuchKey (no gene of the shards). And what convert_to_shards throws.
AppendResult append_to_shards(const AppendOptions& options);

}  // namespace cellfeed::convert
