// Up to 128 keys in order, by sorting networks in registers; for kernels that are compiled once a
// target (Highway), which includes this file as often.
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#ifndef CELLFEED_TRANSFORM_SORT_ROOM
#define CELLFEED_TRANSFORM_SORT_ROOM
namespace cellfeed::transform {

// Elements behind those that are sorted, which whole vectors overwrite.
inline constexpr std::size_t kSortRoom = 16;

}  // namespace cellfeed::transform
#endif

// Highway's way of including a file once for each target.
#if defined(CELLFEED_TRANSFORM_SORT_FEW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLFEED_TRANSFORM_SORT_FEW_INL_H
#undef CELLFEED_TRANSFORM_SORT_FEW_INL_H
#else
#define CELLFEED_TRANSFORM_SORT_FEW_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
namespace hn = hwy::HWY_NAMESPACE;

using Keys = hn::CappedTag<std::uint32_t, kSortRoom>;
using Vector = hn::Vec<Keys>;
constexpr std::size_t kLanes = HWY_MIN(HWY_MAX_BYTES / 4, kSortRoom);
constexpr std::size_t kMostVectors = 8;  // that are sorted in registers

// ---- one vector; kDistance: of two lanes that are compared

// The lane at that distance.
template <std::size_t kDistance>
HWY_INLINE Vector swap_lanes(Vector v) {
  if constexpr (kDistance == 1) return hn::Shuffle2301(v);
  if constexpr (kDistance == 2) return hn::Shuffle1032(v);
  if constexpr (2 * kDistance == kLanes) return hn::ConcatLowerUpper(Keys(), v, v);
  if constexpr (kDistance == 4) return hn::SwapAdjacentBlocks(v);
}

// Of each kGroup lanes the last comes first.
template <std::size_t kGroup>
HWY_INLINE Vector reverse_lanes(Vector v) {
  if constexpr (kGroup == 2) return hn::Shuffle2301(v);
  if constexpr (kGroup == kLanes) return hn::Reverse(Keys(), v);
  if constexpr (kGroup == 4) return hn::Reverse4(Keys(), v);
  if constexpr (kGroup == 8) return hn::Reverse8(Keys(), v);
}

// Of each 2 * kDistance lanes the first half is of `lower`.
template <std::size_t kDistance>
HWY_INLINE Vector take_halves(Vector lower, Vector upper) {
  const hn::Repartition<std::uint64_t, Keys> pairs;
  if constexpr (kDistance == 1) return hn::OddEven(upper, lower);
  if constexpr (2 * kDistance == kLanes) return hn::ConcatUpperLower(Keys(), upper, lower);
  if constexpr (kDistance == 2)
    return hn::BitCast(Keys(), hn::OddEven(hn::BitCast(pairs, upper), hn::BitCast(pairs, lower)));
  if constexpr (kDistance == 4) return hn::OddEvenBlocks(upper, lower);
}

template <std::size_t kDistance>
HWY_INLINE Vector order_halves(Vector v, Vector other) {
  return take_halves<kDistance>(hn::Min(v, other), hn::Max(v, other));
}

// Lanes that rise and then fall, or fall and then rise, in groups of 2 * kDistance.
template <std::size_t kDistance>
HWY_INLINE Vector sort_bitonic(Vector v) {
  if constexpr (kDistance == 0)
    return v;
  else
    return sort_bitonic<kDistance / 2>(order_halves<kDistance>(v, swap_lanes<kDistance>(v)));
}

// ---- kCount vectors: rows of a table

HWY_INLINE void order(Vector& a, Vector& b) {
  const Vector larger = hn::Max(a, b);
  a = hn::Min(a, b);
  b = larger;
}

// Each column of its own, by Batcher's networks.
HWY_INLINE void sort_4_rows(Vector* v) {
  order(v[0], v[1]);
  order(v[2], v[3]);
  order(v[0], v[2]);
  order(v[1], v[3]);
  order(v[1], v[2]);
}

template <std::size_t kCount>
HWY_INLINE void sort_columns(Vector* v) {
  if constexpr (kCount == 2) order(v[0], v[1]);
  if constexpr (kCount == 4) sort_4_rows(v);
  if constexpr (kCount == 8) {
    sort_4_rows(v);
    sort_4_rows(v + 4);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 4; ++i) order(v[i], v[i + 4]);
    order(v[2], v[4]);
    order(v[3], v[5]);
    order(v[1], v[2]);
    order(v[3], v[4]);
    order(v[5], v[6]);
  }
}

// Of each kGroup columns both halves are sorted, row by row; then all of them are. What is compared
// lies in mirrored rows and columns, so that the right half stays the mirror of what would follow
// the left.
template <std::size_t kCount, std::size_t kGroup>
HWY_INLINE void merge_halves(Vector* v) {
  if constexpr (kCount == 1) {
    *v = sort_bitonic<kGroup / 4>(order_halves<kGroup / 2>(*v, reverse_lanes<kGroup>(*v)));
  } else {
    Vector mirrored[kCount / 2];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount / 2; ++i)
      mirrored[i] = reverse_lanes<kGroup>(v[kCount - 1 - i]);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount / 2; ++i) {
      order(v[i], mirrored[i]);
      v[i + kCount / 2] = mirrored[i];
    }
    merge_halves<kCount / 2, kGroup>(v);
    merge_halves<kCount / 2, kGroup>(v + kCount / 2);
  }
}

// Row by row. kGroup: columns that are merged first.
template <std::size_t kCount, std::size_t kGroup = 2>
HWY_INLINE void merge_columns(Vector* v) {
  merge_halves<kCount, kGroup>(v);
  if constexpr (kGroup < kLanes) merge_columns<kCount, 2 * kGroup>(v);
}

// At most kCount whole vectors; what is stored behind the n keys is overwritten by the part to
// their right.
template <std::size_t kCount>
void sort_few(const std::uint32_t* keys, std::size_t n, std::uint32_t* sorted) {
  const Keys d;
  Vector v[kCount];
  const Vector most = hn::Set(d, std::numeric_limits<std::uint32_t>::max());
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    v[i] = most;
    if ((i + 1) * kLanes <= n)
      v[i] = hn::LoadU(d, keys + i * kLanes);
    else if (i * kLanes < n)
      v[i] = hn::IfThenElse(hn::FirstN(d, n - i * kLanes), hn::LoadU(d, keys + i * kLanes), most);
  }
  sort_columns<kCount>(v);
  merge_columns<kCount>(v);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i)
    if (i * kLanes < n) hn::StoreU(v[i], d, sorted + i * kLanes);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#endif
