#include "cellfeed/transform/simd/value_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/transform/simd/value_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <hwy/contrib/math/math-inl.h>
#pragma GCC diagnostic pop

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Applies fn to every vector of values; the tail goes through a padded copy, so nothing outside is
// touched.
template <typename T, typename Fn>
HWY_INLINE void map_values(T* HWY_RESTRICT values, std::size_t n, const Fn& fn) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(fn(d, hn::LoadU(d, values + i)), d, values + i);
  if (i == n) return;
  HWY_ALIGN T tail[hn::MaxLanes(d)] = {};
  for (std::size_t k = i; k < n; ++k) tail[k - i] = values[k];
  hn::Store(fn(d, hn::Load(d, tail)), d, tail);
  for (std::size_t k = i; k < n; ++k) values[k] = tail[k - i];
}

template <typename T>
void scale(T* values, std::size_t n, T factor) {
  map_values(values, n, [factor](auto d, auto v) { return hn::Mul(v, hn::Set(d, factor)); });
}

// 1 + x = 2^k (1 + m) with m in [-1/4, 1/2]; log1p(m) = m + m^2 p(m), p the minimax polynomial of
// degree 8. m comes from x and 2^-k, not from the rounded 1 + x, so that small x keep all their
// bits.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log1p_of_floats(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto one_plus_x = hn::BitCast(di, hn::Add(x, hn::Set(d, 1.0f)));
  const auto three_quarters = hn::Set(di, 0x3f400000);
  const auto four = hn::Set(di, 0x40800000);
  const auto exponent =
      hn::And(hn::Sub(one_plus_x, three_quarters), hn::Set(di, ~0x7fffff));  // k * 2^23
  const auto scaled_x = hn::BitCast(d, hn::Sub(hn::BitCast(di, x), exponent));
  const auto scaled_four = hn::BitCast(d, hn::Sub(four, exponent));
  const auto m = hn::Add(scaled_x, hn::MulAdd(hn::Set(d, 0.25f), scaled_four, hn::Set(d, -1.0f)));
  auto p = hn::Set(d, -0.0449095813f);
  for (const float coefficient : {0.104483287f, -0.131622319f, 0.144820619f, -0.166477672f,
                                  0.199906067f, -0.250000546f, 0.333334544f, -0.500000008f})
    p = hn::MulAdd(p, m, hn::Set(d, coefficient));
  const auto log_of_mantissa = hn::MulAdd(hn::Mul(m, m), p, m);
  const auto ln2 = hn::Set(d, 0.693147180559945f / 8388608.0f);  // of an exponent times 2^23
  return hn::MulAdd(hn::ConvertTo(d, exponent), ln2, log_of_mantissa);
}

// Where the formulas above and Highway's give something else: log1p(-1) = -infinity, below that
// NaN, and both are said.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V limits_of_log1p(D d, V x, V result, bool* have_logarithms) {
  const auto infinity = hn::Inf(d);
  const auto minus_one = hn::Set(d, hn::TFromD<D>{-1});
  const auto is_inside = hn::And(hn::Gt(x, minus_one), hn::Lt(x, infinity));
  if (HWY_LIKELY(hn::AllTrue(d, is_inside))) return result;
  *have_logarithms &= hn::AllFalse(d, hn::Le(x, minus_one));
  const auto at_pole = hn::IfThenElse(hn::Eq(x, minus_one), hn::Neg(infinity), hn::NaN(d));
  return hn::IfThenElse(is_inside, result, hn::IfThenElse(hn::Eq(x, infinity), infinity, at_pole));
}

template <typename T>
bool log1p(T* values, std::size_t n, T factor, T unit) {
  bool have_logarithms = true;
  map_values(values, n, [factor, unit, &have_logarithms](auto d, auto v) {
    const auto scaled = hn::Mul(v, hn::Set(d, factor));
    const auto logarithm = [&] {
      if constexpr (sizeof(T) == sizeof(float))
        return log1p_of_floats(d, scaled);
      else
        return hn::Log1p(d, scaled);
    }();
    return hn::Mul(limits_of_log1p(d, scaled, logarithm, &have_logarithms), hn::Set(d, unit));
  });
  return have_logarithms;
}

// Four sums at once hide the latency of the additions.
template <typename T>
double sum(const T* HWY_RESTRICT values, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> from;
  const std::size_t lanes = hn::Lanes(d);
  const auto load = [&](std::size_t i) {
    if constexpr (sizeof(T) == sizeof(double))
      return hn::LoadU(d, values + i);
    else
      return hn::PromoteTo(d, hn::LoadU(from, values + i));
  };
  auto a = hn::Zero(d), b = a, c = a, e = a;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Add(a, load(i));
    b = hn::Add(b, load(i + lanes));
    c = hn::Add(c, load(i + 2 * lanes));
    e = hn::Add(e, load(i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a = hn::Add(a, load(i));
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) total += values[i];
  return total;
}

double sum_f32(const float* values, std::size_t n) { return sum(values, n); }
double sum_f64(const double* values, std::size_t n) { return sum(values, n); }
void scale_f32(float* values, std::size_t n, float factor) { scale(values, n, factor); }
void scale_f64(double* values, std::size_t n, double factor) { scale(values, n, factor); }
bool log1p_f32(float* values, std::size_t n, float factor, float unit) {
  return log1p(values, n, factor, unit);
}
bool log1p_f64(double* values, std::size_t n, double factor, double unit) {
  return log1p(values, n, factor, unit);
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::transform {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_f64);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_f64);
HWY_EXPORT(log1p_f32);
HWY_EXPORT(log1p_f64);

double sum_values(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(sum_f32)(values.data(), values.size());
}
double sum_values(std::span<const double> values) {
  return HWY_DYNAMIC_DISPATCH(sum_f64)(values.data(), values.size());
}
void scale_values(std::span<float> values, float factor) {
  HWY_DYNAMIC_DISPATCH(scale_f32)(values.data(), values.size(), factor);
}
void scale_values(std::span<double> values, double factor) {
  HWY_DYNAMIC_DISPATCH(scale_f64)(values.data(), values.size(), factor);
}
bool log1p_values(std::span<float> values, float factor, float unit) {
  return HWY_DYNAMIC_DISPATCH(log1p_f32)(values.data(), values.size(), factor, unit);
}
bool log1p_values(std::span<double> values, double factor, double unit) {
  return HWY_DYNAMIC_DISPATCH(log1p_f64)(values.data(), values.size(), factor, unit);
}

}  // namespace cellfeed::transform
#endif
