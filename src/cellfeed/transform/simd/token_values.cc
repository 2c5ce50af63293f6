#include "cellfeed/transform/simd/token_values.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/transform/simd/token_values.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Values are looked at by their bits: NaN and infinity are above the largest number, what is
// negative has the sign, and so has -0, which is a number.
constexpr auto kLargest = std::bit_cast<std::int32_t>(std::numeric_limits<float>::max());
constexpr auto kMinusZero = std::numeric_limits<std::int32_t>::min();

bool is_positive(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits > 0 && bits <= kLargest;
}

bool is_expression(float value) { return value == 0 || is_positive(value); }

// Lanes that are no expression. 0 <= bits <= kLargest, or -0.
template <class D, class V>
HWY_INLINE auto find_others(D /*d*/, V values) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, values);
  const auto is_above = hn::Gt(bits, hn::Set(du, static_cast<std::uint32_t>(kLargest)));
  const auto is_zero = hn::Eq(bits, hn::Set(du, static_cast<std::uint32_t>(kMinusZero)));
  return hn::AndNot(hn::VecFromMask(du, is_zero), hn::VecFromMask(du, is_above));
}

bool ArePositive(const float* values, std::size_t n) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToFloat<decltype(d)> df;
  auto largest = hn::Zero(d), smallest = hn::Set(d, 1);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(d, hn::LoadU(df, values + i));
    largest = hn::Max(largest, bits);
    smallest = hn::Min(smallest, bits);
  }
  bool all = hn::AllTrue(d, hn::Gt(smallest, hn::Zero(d))) &&
             hn::AllFalse(d, hn::Gt(largest, hn::Set(d, kLargest)));
  for (; i < n; ++i) all &= is_positive(values[i]);
  return all;
}

bool AreExpression(const float* values, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  auto others = hn::Zero(du);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    others = hn::Or(others, find_others(d, hn::LoadU(d, values + i)));
  bool all = hn::AllTrue(du, hn::Eq(others, hn::Zero(du)));
  for (; i < n; ++i) all &= is_expression(values[i]);
  return all;
}

bool DivideValues(const float* values, const TokenColumn* columns, std::size_t n, float* quotients,
                  std::int32_t* ids) {
  const hn::ScalableTag<float> d;
  [[maybe_unused]] const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  auto others = hn::Zero(du);
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  static_assert(sizeof(TokenColumn) == 2 * sizeof(float));
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto* pairs = reinterpret_cast<const float*>(columns + i);
    hn::Vec<decltype(d)> id_bits, divisors;
    hn::LoadInterleaved2(d, pairs, id_bits, divisors);
    const auto quotient = hn::Div(hn::LoadU(d, values + i), divisors);
    others = hn::Or(others, find_others(d, quotient));
    hn::StoreU(quotient, d, quotients + i);
    hn::StoreU(hn::BitCast(di, id_bits), di, ids + i);
  }
#endif
  bool all = hn::AllTrue(du, hn::Eq(others, hn::Zero(du)));
  for (; i < n; ++i) {
    quotients[i] = values[i] / columns[i].divisor;
    ids[i] = columns[i].id;
    all &= is_expression(quotients[i]);
  }
  return all;
}

void FillValues(std::int64_t* values, std::size_t n, std::int64_t value) {
  const hn::ScalableTag<std::int64_t> d;
  const auto filled = hn::Set(d, value);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(filled, d, values + i);
  for (; i < n; ++i) values[i] = value;
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::transform {
namespace {

HWY_EXPORT(ArePositive);
HWY_EXPORT(AreExpression);
HWY_EXPORT(DivideValues);
HWY_EXPORT(FillValues);

}  // namespace

bool are_positive(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(ArePositive)(values.data(), values.size());
}

bool are_expression(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(AreExpression)(values.data(), values.size());
}

bool divide_values(std::span<const float> values, std::span<const TokenColumn> columns,
                   std::span<float> quotients, std::span<std::int32_t> ids) {
  return HWY_DYNAMIC_DISPATCH(DivideValues)(values.data(), columns.data(), values.size(),
                                            quotients.data(), ids.data());
}

void fill_values(std::span<std::int64_t> values, std::int64_t value) {
  HWY_DYNAMIC_DISPATCH(FillValues)(values.data(), values.size(), value);
}

}  // namespace cellfeed::transform
#endif
