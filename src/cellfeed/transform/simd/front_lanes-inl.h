// Brings some lanes of a vector to its front; for kernels that are compiled once a target
// (Highway), which includes this file as often.
#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef CELLFEED_TRANSFORM_FRONT_LANES_TABLES
#define CELLFEED_TRANSFORM_FRONT_LANES_TABLES
namespace cellfeed::transform {

// Of each mask the lanes that it has, and then the others. Highway 1.0 has such tables too, which
// GCC copies to the stack for each vector.
template <std::size_t kLanes>
struct FrontLanes {
  static constexpr std::size_t kMasks = std::size_t{1} << kLanes;
  std::array<std::array<std::uint8_t, kLanes>, kMasks> lanes{};

  constexpr FrontLanes() {
    for (std::size_t mask = 0; mask < kMasks; ++mask) {
      std::size_t at = 0;
      for (const std::size_t wanted : {1, 0})
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          if ((mask >> lane & 1) == wanted) lanes[mask][at++] = static_cast<std::uint8_t>(lane);
    }
  }
};

template <std::size_t kLanes>
inline constexpr FrontLanes<kLanes> kFrontLanes;

}  // namespace cellfeed::transform
#endif

// Highway's way of including a file once for each target.
#if defined(CELLFEED_TRANSFORM_FRONT_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLFEED_TRANSFORM_FRONT_LANES_INL_H
#undef CELLFEED_TRANSFORM_FRONT_LANES_INL_H
#else
#define CELLFEED_TRANSFORM_FRONT_LANES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {

// A mask of as many bits as there are lanes; Highway loads 8 bytes whatever their number.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Mask<D> mask_of(D d, std::uint64_t bits) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof(bytes));
  return hwy::HWY_NAMESPACE::LoadMaskBits(d, bytes);
}

// Whether bring_to_front leaves the other lanes behind those that it brings there.
template <class D>
constexpr bool keeps_other_lanes() {
  return !HWY_HAVE_SCALABLE && hwy::HWY_NAMESPACE::MaxLanes(D()) <= 8;
}

// The lanes of 32 bits whose bit is set come first, in their order.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> bring_to_front(D d, hwy::HWY_NAMESPACE::Vec<D> v,
                                                     std::uint64_t bits) {
  namespace hn = hwy::HWY_NAMESPACE;
  static_assert(sizeof(hn::TFromD<D>) == 4);
  if constexpr (hn::MaxLanes(D()) == 1) {
    return v;
  } else if constexpr (keeps_other_lanes<D>()) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    const hn::Rebind<std::uint8_t, D> bytes;
    const hn::RebindToSigned<D> numbers;
    const auto lanes = hn::LoadU(bytes, kFrontLanes<kLanes>.lanes[bits].data());
    return hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::PromoteTo(numbers, lanes)));
  } else {
    return hn::Compress(v, mask_of(d, bits));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();
#endif
