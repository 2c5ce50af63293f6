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

// Applies fn to every vector of values; the tail goes through a padded copy, so nothing outside is touched.
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

template <typename T>
void log1p(T* values, std::size_t n, T factor, T unit) {
  map_values(values, n, [factor, unit](auto d, auto v) {
    const auto logarithm = hn::Log1p(d, hn::Mul(v, hn::Set(d, factor)));
    return hn::Mul(logarithm, hn::Set(d, unit));
  });
}

double sum_f32(const float* HWY_RESTRICT values, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Add(a, hn::PromoteTo(d, hn::LoadU(df, values + i)));
    b = hn::Add(b, hn::PromoteTo(d, hn::LoadU(df, values + i + lanes)));
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < n; ++i) total += values[i];
  return total;
}

double sum_f64(const double* HWY_RESTRICT values, std::size_t n) {
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) a = hn::Add(a, hn::LoadU(d, values + i));
  double total = hn::GetLane(hn::SumOfLanes(d, a));
  for (; i < n; ++i) total += values[i];
  return total;
}

void scale_f32(float* values, std::size_t n, float factor) { scale(values, n, factor); }
void scale_f64(double* values, std::size_t n, double factor) { scale(values, n, factor); }
void log1p_f32(float* values, std::size_t n, float factor, float unit) { log1p(values, n, factor, unit); }
void log1p_f64(double* values, std::size_t n, double factor, double unit) { log1p(values, n, factor, unit); }

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
void log1p_values(std::span<float> values, float factor, float unit) {
  HWY_DYNAMIC_DISPATCH(log1p_f32)(values.data(), values.size(), factor, unit);
}
void log1p_values(std::span<double> values, double factor, double unit) {
  HWY_DYNAMIC_DISPATCH(log1p_f64)(values.data(), values.size(), factor, unit);
}

}  // namespace cellfeed::transform
#endif
