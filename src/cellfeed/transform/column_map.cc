#include "cellfeed/transform/column_map.h"

#include <cstddef>

#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::transform {

MapTraits find_traits(std::span<const std::int32_t> places) {
  MapTraits traits;
  std::size_t n_kept = 0;
  for (const std::int32_t place : places) {
    if (place < 0) continue;
    ++n_kept;
    if (place < traits.n_cols)
      traits.keeps_order = false;
    else
      traits.n_cols = place + 1;
  }
  traits.keeps_all = n_kept == places.size();
  traits.keeps_most = n_kept > places.size() / 2;
  return traits;
}

std::vector<std::uint16_t> narrow_places(std::span<const std::int32_t> places,
                                         const MapTraits& traits) {
  if (!traits.keeps_all || traits.n_cols > (1 << 16)) return {};
  return {places.begin(), places.end()};
}

std::vector<std::uint32_t> mark_kept(std::span<const std::int32_t> places,
                                     const MapTraits& traits) {
  if (traits.keeps_all) return {};
  std::vector<std::uint32_t> marks(places.size() / 32 + 1 + kMarksPadding);
  for (std::size_t column = 0; column < places.size(); ++column)
    if (places[column] >= 0) marks[column / 32] |= std::uint32_t{1} << column % 32;
  return marks;
}

}  // namespace cellfeed::transform
