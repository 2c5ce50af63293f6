#include "cellfeed/transform/simd/sort_places.h"

// Vectors of known length are needed: machines with SVE have NEON too.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/transform/simd/sort_places.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "cellfeed/transform/simd/front_lanes-inl.h"

#ifndef CELLFEED_TRANSFORM_SORT_PLACES_ONCE
#define CELLFEED_TRANSFORM_SORT_PLACES_ONCE
namespace cellfeed::transform {

// Elements behind those that are sorted, which whole vectors overwrite.
inline constexpr std::size_t kSortRoom = 16;

// Of a thread.
struct SortScratch {
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> larger;  // of a part that is being parted
  std::vector<std::uint32_t> sorted;

  void reserve(std::size_t n) {
    if (keys.size() >= n + kSortRoom) return;
    for (auto* each : {&keys, &larger, &sorted}) each->resize(n + kSortRoom);
  }
};

// Smaller comes first: the larger value.
inline std::uint32_t falling_bits(float value) { return ~std::bit_cast<std::uint32_t>(value); }

}  // namespace cellfeed::transform
#endif

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
void sort_keys(SortScratch& scratch, std::size_t n) {
  std::copy_n(scratch.keys.begin(), n, scratch.sorted.begin());
  std::sort(scratch.sorted.begin(), scratch.sorted.begin() + static_cast<std::ptrdiff_t>(n));
}
#else

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

// ---- parts

HWY_INLINE std::uint32_t middle_of_3(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// Smaller than some key, and not smaller than all. REQUIRES: 9 keys or more.
HWY_INLINE std::uint32_t choose_pivot(const std::uint32_t* keys, std::size_t n) {
  const std::size_t step = n / 9;
  std::uint32_t middle[3];
  for (std::size_t i = 0; i < 3; ++i)
    middle[i] = middle_of_3(keys[3 * i * step], keys[(3 * i + 1) * step], keys[(3 * i + 2) * step]);
  return middle_of_3(middle[0], middle[1], middle[2]);
}

// Keys below the pivot go to the front, the others behind them; how many are below. Whole vectors
// are stored at the front: they end where the one just loaded ends, or before. Vectors are put in
// order in registers: compressing them to memory takes some machines 100 cycles.
std::size_t part_keys(std::uint32_t* keys, std::size_t n, std::uint32_t pivot,
                      std::uint32_t* larger) {
  const Keys d;
  const Vector limit = hn::Set(d, pivot);
  std::size_t n_below = 0, i = 0;
  // The others from the end to the front, where they come behind those below in the same vector.
  std::uint32_t* const end = larger + n + kSortRoom;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector v = hn::LoadU(d, keys + i);
    const auto is_below = hn::Lt(v, limit);
    if constexpr (keeps_other_lanes<Keys>()) {
      std::uint8_t bits[8];
      hn::StoreMaskBits(d, is_below, bits);
      const Vector parted = bring_to_front(d, v, bits[0]);
      hn::StoreU(parted, d, keys + n_below);
      hn::StoreU(parted, d, end - (i - n_below) - kLanes);
    } else {
      hn::StoreU(hn::Compress(v, is_below), d, keys + n_below);
      hn::StoreU(hn::Compress(v, hn::Not(is_below)), d, larger + (i - n_below));
    }
    n_below += hn::CountTrue(d, is_below);
  }
  const std::size_t n_vector_others = i - n_below;
  const std::uint32_t* others = keeps_other_lanes<Keys>() ? end - n_vector_others : larger;
  std::uint32_t rest[kLanes];
  std::size_t n_rest = 0;
  for (; i < n; ++i) {
    const std::uint32_t key = keys[i];
    rest[n_rest] = key;
    keys[n_below] = key;
    n_below += key < pivot;
    n_rest += key >= pivot;
  }
  std::memcpy(keys + n_below, others, n_vector_others * sizeof(*keys));
  std::memcpy(keys + n_below + n_vector_others, rest, n_rest * sizeof(*keys));
  return n_below;
}

// Parts are sorted from the left to the right. parts_left: how often keys may be parted further.
void sort_part(std::uint32_t* keys, std::size_t n, std::uint32_t* larger, std::uint32_t* sorted,
               int parts_left) {
  while (n > kMostVectors * kLanes) {
    if (parts_left-- == 0) {
      std::sort(keys, keys + n);
      std::copy_n(keys, n, sorted);
      return;
    }
    const std::size_t n_below = part_keys(keys, n, choose_pivot(keys, n), larger);
    sort_part(keys, n_below, larger, sorted, parts_left);
    keys += n_below;
    sorted += n_below;
    n -= n_below;
  }
  if (n > 4 * kLanes) return sort_few<8>(keys, n, sorted);
  if (n > 2 * kLanes) return sort_few<4>(keys, n, sorted);
  if (n > kLanes) return sort_few<2>(keys, n, sorted);
  sort_few<1>(keys, n, sorted);
}

// REQUIRES: no key is there twice.
void sort_keys(SortScratch& scratch, std::size_t n) {
  const int most_parts = 2 * static_cast<int>(std::bit_width(n));
  sort_part(scratch.keys.data(), n, scratch.larger.data(), scratch.sorted.data(), most_parts);
}
#endif

using Bits = hn::CappedTag<std::uint32_t, 16>;

struct BitRange {
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t last = 0;
};

BitRange range_of(const float* values, std::size_t n) {
  const Bits d;
  const hn::RebindToFloat<Bits> df;
  BitRange range;
  auto first = hn::Set(d, range.first), last = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto bits = hn::Not(hn::BitCast(d, hn::LoadU(df, values + i)));
    first = hn::Min(first, bits);
    last = hn::Max(last, bits);
  }
  range.first = hn::GetLane(hn::MinOfLanes(d, first));
  range.last = hn::GetLane(hn::MaxOfLanes(d, last));
  for (; i < n; ++i) {
    range.first = std::min(range.first, falling_bits(values[i]));
    range.last = std::max(range.last, falling_bits(values[i]));
  }
  return range;
}

// The place is in the lower bits. Returns the bits in which values differ from the first.
std::uint32_t make_keys(const float* values, std::size_t n, std::uint32_t first, int dropped,
                        int place_bits, std::uint32_t* keys) {
  const Bits d;
  const hn::RebindToFloat<Bits> df;
  const auto lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  auto differing = hn::Zero(d), places = hn::Iota(d, 0);
  const auto offset = hn::Set(d, first), step = hn::Set(d, lanes);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::Sub(hn::Not(hn::BitCast(d, hn::LoadU(df, values + i))), offset);
    differing = hn::Or(differing, bits);
    const auto upper = hn::ShiftLeftSame(hn::ShiftRightSame(bits, dropped), place_bits);
    hn::StoreU(hn::Or(upper, places), d, keys + i);
    places = hn::Add(places, step);
  }
  HWY_ALIGN std::uint32_t of_lanes[16];
  hn::Store(differing, d, of_lanes);
  std::uint32_t all = 0;
  for (std::size_t k = 0; k < lanes; ++k) all |= of_lanes[k];
  for (; i < n; ++i) {
    const std::uint32_t bits = falling_bits(values[i]) - first;
    all |= bits;
    keys[i] = bits >> dropped << place_bits | static_cast<std::uint32_t>(i);
  }
  return all;
}

void take_places(const std::uint32_t* keys, std::size_t n, std::uint32_t mask,
                 std::uint32_t* places) {
  const Bits d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::And(hn::LoadU(d, keys + i), hn::Set(d, mask)), d, places + i);
  for (; i < n; ++i) places[i] = keys[i] & mask;
}

bool SortPlaces(const float* values, std::size_t n, std::uint32_t* places, SortScratch& scratch) {
  constexpr int kKeyBits = 32;
  const BitRange range = range_of(values, n);
  const int place_bits = static_cast<int>(std::bit_width(n - 1));
  const int width = static_cast<int>(std::bit_width(range.last - range.first));
  const int dropped = std::max(0, width - (kKeyBits - place_bits));
  const std::uint32_t differing =
      make_keys(values, n, range.first, dropped, place_bits, scratch.keys.data());
  sort_keys(scratch, n);
  take_places(scratch.sorted.data(), n, (std::uint32_t{1} << place_bits) - 1, places);
  return (differing & ((std::uint32_t{1} << dropped) - 1)) == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::transform {
namespace {

HWY_EXPORT(SortPlaces);

}  // namespace

bool sort_places(std::span<const float> values, std::span<std::uint32_t> places) {
  static thread_local SortScratch scratch;
  if (values.empty()) return true;
  scratch.reserve(values.size());
  return HWY_DYNAMIC_DISPATCH(SortPlaces)(values.data(), values.size(), places.data(), scratch);
}

}  // namespace cellfeed::transform
#endif
