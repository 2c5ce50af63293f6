// RowPipeline: what happens to a decoded row before it is in the batch: the transforms in order,
// over all genes of its store, and the columns that gene join and selections leave, in one move.
// Thread-safe: immutable. Lifetime: the collection outlives it.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/options.h"
#include "cellfeed/matrix/obs.h"
#include "cellfeed/transform/column_map.h"
#include "cellfeed/transform/fusion.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {

class RowPipeline {
 public:
  // Throws kInvalidArgument when a transform needs floats and the batch holds integers, or totals
  // over genes that a store does not have; what bind throws.
  RowPipeline(const collection::Collection& collection, const LoaderOptions& options);
  RowPipeline(const RowPipeline&) = delete;
  RowPipeline& operator=(const RowPipeline&) = delete;

  // True when rows of this store reach the batch as they are decoded.
  bool is_identity(std::int64_t store) const {
    return stages_.whole_row.empty() && stages_.kept_genes.empty() &&
           maps_[static_cast<std::size_t>(store)].empty();
  }
  // Columns stay in the order of the store.
  bool keeps_order(std::int64_t store) const {
    return maps_[static_cast<std::size_t>(store)].traits.keeps_order;
  }
  // All that happens is that columns move, none past another, and none is dropped.
  bool moves_in_order(std::int64_t store) const {
    const transform::ColumnMap& map = maps_[static_cast<std::size_t>(store)];
    return only_moves_columns() && !map.empty() && map.traits.keeps_order && map.traits.keeps_all;
  }
  const transform::ColumnMap& map(std::int64_t store) const {
    return maps_[static_cast<std::size_t>(store)];
  }
  // Some rows lose entries.
  bool drops_columns() const;
  // Of the columns of the store that keeps most of them, 0 to 1.
  double kept_columns() const;
  // order: that of the columns afterwards. room: where the row may lie then, for all of its
  // entries; it may stay where it is.
  void apply(std::int64_t store, transform::Row& row,
             transform::EntryOrder order = transform::EntryOrder::kIncreasing,
             const transform::RowRoom& room = {}) const;
  // Throws what is being handled again, of a row of this number; of bad values, which transforms
  // know nothing else of, with the file and the row in it.
  [[noreturn]] void rethrow_placed(const Error& error, std::int64_t cell) const;
  // Throws where the totals of a store's cells, which apply read, may have been lost since.
  void require_intact(std::int64_t store) const {
    if (!needs_library_size_) return;
    if (const auto& sizes = library_sizes_[static_cast<std::size_t>(store)])
      matrix::require_intact(*sizes);
  }
  // True when rows only lose or change columns, so that dense rows go to a dense batch as they are.
  bool only_moves_columns() const {
    return stages_.whole_row.empty() && stages_.kept_genes.empty();
  }
  // Of each column of the batch the store's, -1 where it has none; empty where they are the same.
  // REQUIRES: of a loader of dense batches, only_moves_columns().
  std::span<const std::int32_t> source_columns(std::int64_t store) const {
    return source_columns_[static_cast<std::size_t>(store)];
  }
  const matrix::GeneAxis& genes() const { return genes_; }

 private:
  using Map = std::span<const std::int32_t>;
  // Genes of the collection's axis -> the batch's columns; empty without selections.
  std::vector<std::int32_t> compose_selections() const;
  void compose_maps(const collection::Collection& collection);
  // Of one store.
  Map compose(Map join, Map selection);
  void find_library_sizes(const collection::Collection& collection);
  // Over all genes of the cell's source, as the stage of kept genes finds it.
  void set_library_size(std::int64_t store, transform::Row* row) const;
  void invert_maps();

  transform::Stages stages_;
  // Of each store: its columns -> the batch's; empty where they stay as they are.
  std::vector<transform::ColumnMap> maps_;
  std::list<std::vector<std::uint16_t>> narrow_;  // of those maps
  std::list<std::vector<std::uint32_t>> marks_;   // likewise
  // The other way round; of loaders of dense batches.
  std::vector<Map> source_columns_;
  // What owns maps that are not a join's.
  std::list<std::vector<std::int32_t>> composed_;
  matrix::GeneAxis genes_;
  bool needs_library_size_ = false;  // of the stage of kept genes
  // Of each store, where its rows do not have all genes of their source.
  std::vector<std::optional<matrix::FixedColumn>> library_sizes_;
  const collection::Collection& collection_;
};

}  // namespace cellfeed::loader
