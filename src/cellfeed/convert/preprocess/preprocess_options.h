// What preprocess is asked for. Pure data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/format/processing.h"

namespace cellfeed::convert {

enum class HvgFlavor { kSeurat, kCellRanger, kSeuratV3 };

struct ProcessingOptions {
  bool normalize = true;
  double target_sum = 1e4;       // counts per cell
  bool log_transform = true;     // log(1 + x), natural
  std::int64_t n_top_genes = 0;  // highly variable genes kept; 0: all genes
  HvgFlavor flavor = HvgFlavor::kSeurat;
  std::string batch_key{};  // obs column: genes are ranked within each batch; empty: in all cells
  std::int64_t min_genes = 0;       // cells with fewer genes are left out
  std::int64_t min_cells = 0;       // genes in fewer of the cells that stay are left out
  double max_mito_share = 1;        // cells with a larger share of mitochondrial counts: left out
  std::string mito_prefix = "MT-";  // of the names of mitochondrial genes, in any case
  bool keeps_counts = false;        // the values as they were: layer "counts"
  bool is_forced = false;  // although the data says that it was done before, or holds no counts

  bool changes_values() const { return normalize || log_transform; }
  bool finds_genes_in_counts() const { return n_top_genes > 0 && flavor == HvgFlavor::kSeuratV3; }
  bool needs_counts() const { return (normalize || finds_genes_in_counts()) && !is_forced; }
  bool filters_cells() const { return min_genes > 0 || max_mito_share < 1; }
};

// Throws kInvalidArgument naming what is out of range or does not go together.
void check_processing(const ProcessingOptions& options);
// Throws kInvalidArgument where something was done before, unless forced.
void refuse_repetition(const ProcessingOptions& options, const format::Processing& before,
                       const std::string& path);
// What the output says of its values: what was done before, and this.
std::string recorded_processing(const ProcessingOptions& options, const format::Processing& before);

std::string flavor_name(HvgFlavor flavor);
// Throws kInvalidArgument naming the nearest known one.
HvgFlavor flavor_from_name(const std::string& name);

}  // namespace cellfeed::convert
