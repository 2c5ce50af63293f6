#include "cellfeed/loader/row_pipeline.h"

#include <map>
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
    : genes_(collection.genes()) {
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
  Map selection;
  if (!transforms_.empty())
    if (const auto* first = dynamic_cast<const transform::SelectGenes*>(transforms_[0].get())) {
      selection = first->map();
      selection_ = std::move(transforms_[0]);
      transforms_.erase(transforms_.begin());
    }
  compose_maps(collection, selection);
}

void RowPipeline::compose_maps(const collection::Collection& collection, Map selection) {
  std::map<const std::int32_t*, Map> composed;  // stores with equal axes share a map
  for (std::int64_t s = 0; s < collection.n_stores(); ++s) {
    const Map join = collection.gene_map(s);
    if (join.empty() || selection.empty()) {
      maps_.push_back(join.empty() ? selection : join);
      continue;
    }
    const auto [it, is_new] = composed.try_emplace(join.data());
    if (is_new) {
      auto& map = composed_.emplace_back(join.begin(), join.end());
      for (std::int32_t& column : map) column = column < 0 ? -1 : selection[column];
      it->second = map;
    }
    maps_.push_back(it->second);
  }
}

void RowPipeline::apply(std::int64_t store, transform::Row& row) const {
  if (needs_library_size_) row.library_size = library_size(row);
  if (const Map map = maps_[static_cast<std::size_t>(store)]; !map.empty())
    transform::remap_row(row, map);
  for (const auto& transform : transforms_) transform->apply(row);
}

}  // namespace cellfeed::loader
