#include "cellfeed/transform/fusion.h"

#include <utility>

#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::transform {
namespace {

template <typename T>
const T* as(const std::shared_ptr<const Transform>& transform) {
  return dynamic_cast<const T*>(transform.get());
}

// The new value depends on the old one and on the library size, which is taken before any
// transform.
bool is_valuewise(const std::shared_ptr<const Transform>& transform) {
  return as<NormalizeTotal>(transform) != nullptr || as<Log1p>(transform) != nullptr;
}

}  // namespace

Transforms fuse_transforms(Transforms transforms) {
  for (std::size_t i = 1; i < transforms.size(); ++i)
    if (as<SelectGenes>(transforms[i]) != nullptr)
      for (std::size_t j = i; j > 0 && is_valuewise(transforms[j - 1]); --j)
        std::swap(transforms[j], transforms[j - 1]);
  Transforms fused;
  for (auto& transform : transforms) {
    const auto* log1p = as<Log1p>(transform);
    const auto* normalize = fused.empty() ? nullptr : as<NormalizeTotal>(fused.back());
    if (log1p != nullptr && normalize != nullptr)
      fused.back() = std::make_shared<NormalizedLog1p>(*normalize, *log1p);
    else
      fused.push_back(std::move(transform));
  }
  return fused;
}

}  // namespace cellfeed::transform
