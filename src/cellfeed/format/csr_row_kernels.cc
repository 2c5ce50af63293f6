#include "cellfeed/format/csr_row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/csr_row_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kExactLimit = 1 << 24;  // float32 holds every integer up to it

template <typename T>
HWY_INLINE T load_one(const std::byte* from, std::size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

// The vectors from element i on; only where there is more than one lane is `from` a T* that may be
// unaligned.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from, std::size_t i) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, load_one<hn::TFromD<D>>(from, i));
#else
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from) + i);
#endif
}

template <class D, class V>
HWY_INLINE bool is_zero(D d, V bits) {
  return hn::AllTrue(d, hn::Eq(bits, hn::Zero(d)));
}

template <class D, class V>
HWY_INLINE bool is_within_limit(D d, V least, V most) {
  const auto limit = hn::Set(d, kExactLimit);
  return hn::AllFalse(d, hn::Gt(most, limit)) && hn::AllFalse(d, hn::Lt(least, hn::Neg(limit)));
}

bool narrow(const std::byte* from, std::size_t n, std::int32_t* out) {
  const hn::ScalableTag<std::int64_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint32_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  auto* low = reinterpret_cast<std::uint32_t*>(out);
  low[0] = static_cast<std::uint32_t>(load_one<std::uint64_t>(from, 0));
  auto ascents = hn::Set(d, -1);  // all bits of a lane: it has only seen ascents
  std::size_t i = 1;
  for (; i + lanes <= n; i += lanes) {
    const auto index = load(d, from, i);
    ascents = hn::And(ascents, hn::VecFromMask(d, hn::Gt(index, load(d, from, i - 1))));
    hn::StoreU(hn::TruncateTo(half, hn::BitCast(du, index)), half, low + i);
  }
  bool ascends = is_zero(d, hn::Not(ascents));
  for (; i < n; ++i) {
    const auto index = load_one<std::int64_t>(from, i);
    low[i] = static_cast<std::uint32_t>(index);
    ascends &= index > load_one<std::int64_t>(from, i - 1);
  }
  return ascends;
}

bool f64_to_f32(const std::byte* from, std::size_t n, float* out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t lanes = hn::Lanes(d);
  auto rounded = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = load(d, from, i);
    const auto narrow = hn::DemoteTo(half, value);
    const auto is_nan = hn::Ne(value, value);
    const auto is_off = hn::AndNot(is_nan, hn::Ne(hn::PromoteTo(d, narrow), value));
    rounded = hn::Or(rounded, hn::BitCast(di, hn::VecFromMask(d, is_off)));
    hn::StoreU(narrow, half, out + i);
  }
  bool is_exact = is_zero(di, rounded);
  for (; i < n; ++i) {
    const auto value = load_one<double>(from, i);
    out[i] = static_cast<float>(value);
    is_exact &= static_cast<double>(out[i]) == value || std::isnan(value);
  }
  return is_exact;
}

// Half a step above the largest float: from here on doubles round to infinity.
constexpr double kOverflow = 0x1.ffffffp127;

bool f64_to_nearest_f32(const std::byte* from, std::size_t n, float* out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto overflow = hn::Set(d, kOverflow);
  auto beyond = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = load(d, from, i);
    // Infinities too: without vectors DemoteTo makes the largest float of them.
    const auto is_beyond = hn::Ge(hn::Abs(value), overflow);
    beyond = hn::Or(beyond, hn::BitCast(di, hn::VecFromMask(d, is_beyond)));
    hn::StoreU(hn::DemoteTo(half, value), half, out + i);
  }
  bool is_within = is_zero(di, beyond);
  for (; i < n; ++i) {
    const auto value = load_one<double>(from, i);
    out[i] = static_cast<float>(value);
    is_within &= !std::isinf(out[i]);
  }
  return is_within;
}

bool i32_to_f32(const std::byte* from, std::size_t n, float* out) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToFloat<decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  auto least = hn::Zero(d), most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = load(d, from, i);
    least = hn::Min(least, value);
    most = hn::Max(most, value);
    hn::StoreU(hn::ConvertTo(df, value), df, out + i);
  }
  bool is_exact = is_within_limit(d, least, most);
  for (; i < n; ++i) {
    const auto value = load_one<std::int32_t>(from, i);
    out[i] = static_cast<float>(value);
    is_exact &= value >= -kExactLimit && value <= kExactLimit;
  }
  return is_exact;
}

bool i64_to_f32(const std::byte* from, std::size_t n, float* out) {
  const hn::ScalableTag<std::int64_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint32_t, decltype(d)> half_u;
  const hn::Rebind<std::int32_t, decltype(d)> half;
  const hn::Rebind<float, decltype(d)> half_f;
  const std::size_t lanes = hn::Lanes(d);
  auto cut_off = hn::Zero(d);
  auto least = hn::Zero(half), most = hn::Zero(half);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = load(d, from, i);
    const auto low = hn::BitCast(half, hn::TruncateTo(half_u, hn::BitCast(du, value)));
    cut_off = hn::Or(cut_off, hn::Xor(hn::PromoteTo(d, low), value));
    least = hn::Min(least, low);
    most = hn::Max(most, low);
    hn::StoreU(hn::ConvertTo(half_f, low), half_f, out + i);
  }
  bool is_exact = is_zero(d, cut_off) && is_within_limit(half, least, most);
  for (; i < n; ++i) {
    const auto value = load_one<std::int64_t>(from, i);
    out[i] = static_cast<float>(value);
    is_exact &= value >= -kExactLimit && value <= kExactLimit;
  }
  return is_exact;
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format {

HWY_EXPORT(narrow);
HWY_EXPORT(f64_to_f32);
HWY_EXPORT(f64_to_nearest_f32);
HWY_EXPORT(i32_to_f32);
HWY_EXPORT(i64_to_f32);

bool narrow_indices(const std::byte* from, std::size_t n, std::int32_t* out) {
  return HWY_DYNAMIC_DISPATCH(narrow)(from, n, out);
}
bool convert_f64_to_f32(const std::byte* from, std::size_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(f64_to_f32)(from, n, out);
}
bool round_f64_to_f32(const std::byte* from, std::size_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(f64_to_nearest_f32)(from, n, out);
}
bool convert_i32_to_f32(const std::byte* from, std::size_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(i32_to_f32)(from, n, out);
}
bool convert_i64_to_f32(const std::byte* from, std::size_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(i64_to_f32)(from, n, out);
}

}  // namespace cellfeed::format
#endif
