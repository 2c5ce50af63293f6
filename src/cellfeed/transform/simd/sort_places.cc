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
#include "cellfeed/transform/simd/sort_few-inl.h"

#ifndef CELLFEED_TRANSFORM_SORT_PLACES_ONCE
#define CELLFEED_TRANSFORM_SORT_PLACES_ONCE
namespace cellfeed::transform {

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

// The first place from i on whose key has the same upper bits as the next one's, or n - 1.
std::size_t next_tie(const std::uint32_t* sorted, std::size_t n, std::size_t i, int place_bits) {
  const Bits d;
  const std::size_t lanes = hn::Lanes(d);
  const auto below = hn::Set(d, std::uint32_t{1} << place_bits);
  for (; i + lanes < n; i += lanes) {
    const auto differing = hn::Xor(hn::LoadU(d, sorted + i), hn::LoadU(d, sorted + i + 1));
    if (!hn::AllFalse(d, hn::Lt(differing, below))) break;
  }
  while (i + 1 < n && (sorted[i] ^ sorted[i + 1]) >> place_bits != 0) ++i;
  return i;
}

// Keys that are the same but for the place: by all bits of their values.
void order_ties(const float* values, const std::uint32_t* sorted, std::size_t n, int place_bits,
                std::uint32_t* places) {
  for (std::size_t i = next_tie(sorted, n, 0, place_bits); i + 1 < n;
       i = next_tie(sorted, n, i, place_bits)) {
    const std::size_t begin = i++;
    while (i < n && (sorted[begin] ^ sorted[i]) >> place_bits == 0) ++i;
    std::sort(places + begin, places + i, ComesFirst{values});
  }
}

void SortPlaces(const float* values, std::size_t n, std::uint32_t* places, SortScratch& scratch) {
  constexpr int kKeyBits = 32;
  const BitRange range = range_of(values, n);
  const int place_bits = static_cast<int>(std::bit_width(n - 1));
  const int width = static_cast<int>(std::bit_width(range.last - range.first));
  const int dropped = std::max(0, width - (kKeyBits - place_bits));
  const std::uint32_t differing =
      make_keys(values, n, range.first, dropped, place_bits, scratch.keys.data());
  sort_keys(scratch, n);
  take_places(scratch.sorted.data(), n, (std::uint32_t{1} << place_bits) - 1, places);
  const bool tells_all_apart = (differing & ((std::uint32_t{1} << dropped) - 1)) == 0;
  if (!tells_all_apart) order_ties(values, scratch.sorted.data(), n, place_bits, places);
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::transform {
namespace {

HWY_EXPORT(SortPlaces);

}  // namespace

void sort_places(std::span<const float> values, std::span<std::uint32_t> places) {
  static thread_local SortScratch scratch;
  if (values.empty()) return;
  scratch.reserve(values.size());
  HWY_DYNAMIC_DISPATCH(SortPlaces)(values.data(), values.size(), places.data(), scratch);
}

}  // namespace cellfeed::transform
#endif
