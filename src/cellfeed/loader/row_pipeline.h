// RowPipeline: what happens to a decoded row before it is in the batch: gene join, then the
// transforms in order. Thread-safe: immutable.
#pragma once

#include <memory>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/options.h"

namespace cellfeed::loader {

class RowPipeline {
 public:
  // Throws kInvalidArgument when a transform needs floats and the batch holds integers; what bind
  // throws.
  RowPipeline(const collection::Collection& collection, const LoaderOptions& options);

  // True when rows of this store reach the batch as they are decoded.
  bool is_identity(std::int64_t store) const {
    return transforms_.empty() && collection_.gene_map(store).empty();
  }
  void apply(std::int64_t store, transform::Row& row) const;
  const matrix::GeneAxis& genes() const { return genes_; }

 private:
  const collection::Collection& collection_;
  std::vector<std::shared_ptr<const transform::Transform>> transforms_;
  matrix::GeneAxis genes_;
  bool needs_library_size_ = false;
};

}  // namespace cellfeed::loader
