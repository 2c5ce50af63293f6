#include "cellfeed/loader/row_pipeline.h"

#include <map>
#include <memory>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::loader {

RowPipeline::RowPipeline(const collection::Collection& collection, const LoaderOptions& options)
    : genes_(collection.genes()) {
  transform::Transforms bound;
  for (const auto& transform : options.transforms) {
    if (transform->needs_float() && !is_float(options.dtype))
      throw_invalid("{} needs float32 or float64 batches; pass dtype=\"float32\" instead of: '{}'",
                    transform->name(), dtype_name(options.dtype));
    auto knowing = transform->bind(genes_);
    bound.push_back(knowing ? std::move(knowing) : transform);
    genes_ = transform->output_genes(genes_);
  }
  stages_ = transform::plan_stages(bound);
  needs_library_size_ = !stages_.kept_genes.empty() && stages_.kept_genes[0]->needs_library_size();
  compose_maps(collection);
}

std::vector<std::int32_t> RowPipeline::compose_selections() const {
  std::vector<std::int32_t> composed;
  for (const auto& selection : stages_.selections) {
    const Map map = dynamic_cast<const transform::SelectGenes&>(*selection).map();
    if (composed.empty()) {
      composed.assign(map.begin(), map.end());
      continue;
    }
    for (std::int32_t& column : composed) column = column < 0 ? -1 : map[column];
  }
  return composed;
}

void RowPipeline::compose_maps(const collection::Collection& collection) {
  const Map selection = composed_.emplace_back(compose_selections());
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
  for (const auto& transform : stages_.whole_row) {
    if (transform->needs_library_size()) row.library_size = transform::library_size(row);
    transform->apply(row);
  }
  if (needs_library_size_) row.library_size = transform::library_size(row);
  if (const Map map = maps_[static_cast<std::size_t>(store)]; !map.empty())
    transform::remap_row(row, map);
  for (const auto& transform : stages_.kept_genes) transform->apply(row);
}

}  // namespace cellfeed::loader
