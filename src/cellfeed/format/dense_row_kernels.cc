#include "cellfeed/format/dense_row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/dense_row_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kWordBits = 64;

template <typename T>
HWY_INLINE std::uint64_t mark_some(const std::byte* data, std::size_t n) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T element;
    std::memcpy(&element, data + i * sizeof(T), sizeof(T));
    word |= static_cast<std::uint64_t>(element != 0) << i;
  }
  return word;
}

// 64 elements.
template <typename T>
HWY_INLINE std::uint64_t mark_word(const std::byte* data) {
#if HWY_TARGET == HWY_SCALAR
  return mark_some<T>(data, kWordBits);
#else
  const hn::CappedTag<T, kWordBits> d;
  const hn::Repartition<std::uint8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < kWordBits; i += lanes) {
    const auto elements = hn::BitCast(
        d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(data + i * sizeof(T))));
    // Eight bytes at least, of which a whole mask is written.
    std::uint64_t marks = 0;
    hn::StoreMaskBits(d, hn::Ne(elements, hn::Zero(d)), reinterpret_cast<std::uint8_t*>(&marks));
    word |= marks << i;
  }
  return word;
#endif
}

template <typename T>
HWY_INLINE std::int64_t mark_all(const std::byte* data, std::size_t n, std::uint64_t* bits) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < n; i += kWordBits) {
    const std::byte* from = data + i * sizeof(T);
    const std::uint64_t word = n - i >= kWordBits ? mark_word<T>(from) : mark_some<T>(from, n - i);
    bits[i / kWordBits] = word;
    count += std::popcount(word);
  }
  return count;
}

std::int64_t MarkEntries(const std::byte* data, std::size_t width, std::size_t n,
                         std::uint64_t* bits) {
  switch (width) {
    case 1:
      return mark_all<std::uint8_t>(data, n, bits);
    case 2:
      return mark_all<std::uint16_t>(data, n, bits);
    case 4:
      return mark_all<std::uint32_t>(data, n, bits);
    default:
      return mark_all<std::uint64_t>(data, n, bits);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format {

HWY_EXPORT(MarkEntries);

std::int64_t mark_entries(const std::byte* data, std::size_t width, std::size_t n,
                          std::uint64_t* bits) {
  return HWY_DYNAMIC_DISPATCH(MarkEntries)(data, width, n, bits);
}

}  // namespace cellfeed::format
#endif
