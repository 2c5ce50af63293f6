// Columns renamed, dropped and reordered: SelectGenes for users, remap_row for the gene join of a
// collection.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/transform/column_map.h"
#include "cellfeed/transform/simd/row_kernels.h"
#include "cellfeed/transform/transform.h"

namespace cellfeed::transform {

// Moves a row to the columns of a map; its indices are in the order asked for afterwards. Where
// entries are dropped and room is given, which is for all that it has, it lies there afterwards.
// REQUIRES: every index < map.places.size().
void remap_row(Row& row, const ColumnMap& map, EntryOrder order = EntryOrder::kIncreasing,
               RowRoom room = {});

// Keeps the genes named, in the order given: column j of the batch is genes[j].
class SelectGenes final : public Transform {
 public:
  // Throws kInvalidArgument for an empty list or a repeated name.
  explicit SelectGenes(std::vector<std::string> genes);
  std::string name() const override { return "SelectGenes"; }
  void apply(Row& row) const override { remap_row(row, ColumnMap(map_, traits_)); }
  std::shared_ptr<const Transform> bind(const matrix::GeneAxis& input) const override;
  matrix::GeneAxis output_genes(const matrix::GeneAxis&) const override { return {genes_}; }
  // Column of the input -> column of the output, -1 = dropped. Empty until bound.
  std::span<const std::int32_t> map() const { return map_; }

 private:
  std::vector<std::string> genes_;
  std::vector<std::int32_t> map_;
  MapTraits traits_;
};

}  // namespace cellfeed::transform
