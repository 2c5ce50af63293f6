// RowPipeline: what happens to a decoded row before it is in the batch: gene join, then the
// transforms in order. A selection of genes that comes first is one move with the join.
// Thread-safe: immutable. Lifetime: the collection outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/options.h"

namespace cellfeed::loader {

class RowPipeline {
 public:
  // Throws kInvalidArgument when a transform needs floats and the batch holds integers; what bind
  // throws.
  RowPipeline(const collection::Collection& collection, const LoaderOptions& options);
  RowPipeline(const RowPipeline&) = delete;
  RowPipeline& operator=(const RowPipeline&) = delete;

  // True when rows of this store reach the batch as they are decoded.
  bool is_identity(std::int64_t store) const {
    return transforms_.empty() && maps_[static_cast<std::size_t>(store)].empty();
  }
  void apply(std::int64_t store, transform::Row& row) const;
  const matrix::GeneAxis& genes() const { return genes_; }

 private:
  using Map = std::span<const std::int32_t>;
  void compose_maps(const collection::Collection& collection, Map selection);

  std::vector<std::shared_ptr<const transform::Transform>> transforms_;
  // Of each store: its columns -> the batch's, -1 = dropped; empty where they stay as they are.
  std::vector<Map> maps_;
  // What owns maps that are not a join's.
  std::vector<std::vector<std::int32_t>> composed_;
  std::shared_ptr<const transform::Transform> selection_;
  matrix::GeneAxis genes_;
  bool needs_library_size_ = false;
};

}  // namespace cellfeed::loader
