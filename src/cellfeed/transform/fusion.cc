#include "cellfeed/transform/fusion.h"

#include <algorithm>
#include <span>

#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::transform {
namespace {

using Transformed = std::shared_ptr<const Transform>;

template <typename T>
const T* as(const Transformed& transform) {
  return dynamic_cast<const T*>(transform.get());
}

Transforms fuse(std::span<const Transformed> transforms) {
  Transforms fused;
  for (const auto& transform : transforms) {
    const auto* log1p = as<Log1p>(transform);
    const auto* normalize = fused.empty() ? nullptr : as<NormalizeTotal>(fused.back());
    if (log1p != nullptr && normalize != nullptr)
      fused.back() = std::make_shared<NormalizedLog1p>(*normalize, *log1p);
    else
      fused.push_back(transform);
  }
  return fused;
}

}  // namespace

Stages plan_stages(const Transforms& written) {
  Stages stages;
  Transforms values;
  for (const auto& transform : written)
    (as<SelectGenes>(transform) != nullptr ? stages.selections : values).push_back(transform);
  std::size_t last_total = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]->needs_library_size()) last_total = i;
  stages.whole_row = fuse(std::span(values).first(last_total));
  stages.kept_genes = fuse(std::span(values).subspan(last_total));
  return stages;
}

}  // namespace cellfeed::transform
