#include "cellfeed/loader/row_pipeline.h"

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/transform/fusion.h"
#include "cellfeed/transform/select_genes.h"
#include "cellfeed/transform/simd/value_kernels.h"

namespace cellfeed::loader {
namespace {

double library_size(const transform::Row& row) {
  const auto n = static_cast<std::size_t>(row.size);
  if (row.dtype == DType::kF32)
    return transform::sum_values(std::span<const float>(static_cast<const float*>(row.values), n));
  return transform::sum_values(std::span<const double>(static_cast<const double*>(row.values), n));
}

}  // namespace

RowPipeline::RowPipeline(const collection::Collection& collection, const LoaderOptions& options)
    : collection_(collection), genes_(collection.genes()) {
  for (const auto& transform : options.transforms) {
    if (transform->needs_float() && !is_float(options.dtype))
      throw_invalid("{} needs float32 or float64 batches; pass dtype=\"float32\" instead of: '{}'",
                    transform->name(), dtype_name(options.dtype));
    auto bound = transform->bind(genes_);
    transforms_.push_back(bound ? bound : transform);
    genes_ = transform->output_genes(genes_);
    needs_library_size_ = needs_library_size_ || transform->needs_library_size();
  }
  transforms_ = transform::fuse_transforms(std::move(transforms_));
}

void RowPipeline::apply(std::int64_t store, transform::Row& row) const {
  if (needs_library_size_) row.library_size = library_size(row);
  if (const auto map = collection_.gene_map(store); !map.empty()) transform::remap_row(row, map);
  for (const auto& transform : transforms_) transform->apply(row);
}

}  // namespace cellfeed::loader
