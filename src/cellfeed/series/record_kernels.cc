// Compiled without contraction of products and sums, which would make other bits where a set has
// it.
#include "cellfeed/series/record_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/series/record_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace cellfeed::series {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A row of records is short, so that wider vectors would leave more columns to the end.
using Numbers = hn::CappedTag<double, 4>;

void sum_rows(const NumberRows& rows, std::size_t n_cols, const ColumnSums& out) {
  const Numbers d;
  constexpr double kMost = std::numeric_limits<double>::infinity();
  std::size_t c = 0;
  for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
    auto count = hn::Zero(d), sum = hn::Zero(d);
    auto least = hn::Set(d, kMost), most = hn::Set(d, -kMost);
    const auto one = hn::Set(d, 1.0);
    const double* at = rows.data + c;
    for (std::size_t i = 0; i < rows.n; ++i, at += rows.stride) {
      const auto value = hn::LoadU(d, at);
      const auto is_missing = hn::IsNaN(value);
      count = hn::Add(count, hn::IfThenZeroElse(is_missing, one));
      sum = hn::Add(sum, hn::IfThenZeroElse(is_missing, value));
      // A missing one compares as false.
      least = hn::IfThenElse(hn::Lt(value, least), value, least);
      most = hn::IfThenElse(hn::Gt(value, most), value, most);
    }
    hn::StoreU(count, d, out.count + c);
    hn::StoreU(sum, d, out.sum + c);
    hn::StoreU(least, d, out.least + c);
    hn::StoreU(most, d, out.most + c);
  }
  for (; c < n_cols; ++c) {
    double count = 0, sum = 0, least = kMost, most = -kMost;
    const double* at = rows.data + c;
    for (std::size_t i = 0; i < rows.n; ++i, at += rows.stride) {
      const bool is_there = !std::isnan(*at);
      count += is_there ? 1 : 0;
      sum += is_there ? *at : 0;
      least = *at < least ? *at : least;
      most = *at > most ? *at : most;
    }
    out.count[c] = count;
    out.sum[c] = sum;
    out.least[c] = least;
    out.most[c] = most;
  }
}

void sum_distances(const NumberRows& rows, std::size_t n_cols, const double* means, double* out) {
  const Numbers d;
  std::size_t c = 0;
  for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    const auto mean = hn::LoadU(d, means + c);
    const double* at = rows.data + c;
    for (std::size_t i = 0; i < rows.n; ++i, at += rows.stride) {
      const auto distance = hn::Sub(hn::LoadU(d, at), mean);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::IsNaN(distance), hn::Mul(distance, distance)));
    }
    hn::StoreU(sum, d, out + c);
  }
  for (; c < n_cols; ++c) {
    double sum = 0;
    const double* at = rows.data + c;
    for (std::size_t i = 0; i < rows.n; ++i, at += rows.stride) {
      const double distance = *at - means[c];
      sum += std::isnan(distance) ? 0 : distance * distance;
    }
    out[c] = sum;
  }
}

bool find_missing(const NumberRows& rows, std::size_t n_cols) {
  const Numbers d;
  auto found = hn::FirstN(d, 0);
  bool is_found = false;
  const double* row = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, row += rows.stride) {
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d))
      found = hn::Or(found, hn::IsNaN(hn::LoadU(d, row + c)));
    for (; c < n_cols; ++c) is_found |= std::isnan(row[c]);
  }
  return is_found || !hn::AllFalse(d, found);
}

template <typename T>
bool scale(const NumberRows& rows, std::size_t n_cols, const double* HWY_RESTRICT center,
           const double* HWY_RESTRICT by, T* HWY_RESTRICT out) {
  const Numbers d;
  const hn::Rebind<T, Numbers> t;
  // The least that becomes infinite as T; looked at before, since not all sets make it infinite.
  constexpr double kBeyond =
      sizeof(T) == 4 ? 0x1.ffffffp127 : std::numeric_limits<double>::infinity();
  const auto limit = hn::Set(d, kBeyond);
  auto beyond = hn::FirstN(d, 0);
  bool is_beyond = false;
  const double* row = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, row += rows.stride, out += n_cols) {
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
      const auto scaled =
          hn::Div(hn::Sub(hn::LoadU(d, row + c), hn::LoadU(d, center + c)), hn::LoadU(d, by + c));
      const auto value = [&] {
        if constexpr (sizeof(T) == 4)
          return hn::DemoteTo(t, scaled);
        else
          return scaled;
      }();
      beyond = hn::Or(beyond, hn::Ge(hn::Abs(scaled), limit));
      hn::StoreU(value, t, out + c);
    }
    for (; c < n_cols; ++c) {
      const double scaled = (row[c] - center[c]) / by[c];
      out[c] = static_cast<T>(scaled);
      is_beyond |= std::abs(scaled) >= kBeyond;
    }
  }
  return !is_beyond && hn::AllFalse(d, beyond);
}

bool scale_f32(const NumberRows& rows, std::size_t n_cols, const double* center, const double* by,
               float* out) {
  return scale(rows, n_cols, center, by, out);
}
bool scale_f64(const NumberRows& rows, std::size_t n_cols, const double* center, const double* by,
               double* out) {
  return scale(rows, n_cols, center, by, out);
}

bool narrow(const NumberRows& rows, std::size_t n_cols, std::byte* out, std::size_t n_bytes) {
  const Numbers d;
  const hn::RebindToUnsigned<Numbers> bits;
  const hn::Rebind<float, Numbers> f;
  const double* row = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, row += rows.stride, out += n_bytes) {
    auto* const HWY_RESTRICT to = reinterpret_cast<float*>(out);
    auto lost = hn::Zero(bits);
    std::uint64_t last_lost = 0;
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
      const auto value = hn::LoadU(d, row + c);
      const auto narrowed = hn::DemoteTo(f, value);
      hn::StoreU(narrowed, f, to + c);
      const auto back = hn::PromoteTo(d, narrowed);
      lost = hn::Or(lost, hn::Xor(hn::BitCast(bits, value), hn::BitCast(bits, back)));
    }
    for (; c < n_cols; ++c) {
      to[c] = static_cast<float>(row[c]);
      last_lost |= std::bit_cast<std::uint64_t>(row[c]) ^
                   std::bit_cast<std::uint64_t>(static_cast<double>(to[c]));
    }
    if (last_lost != 0 || !hn::AllTrue(bits, hn::Eq(lost, hn::Zero(bits)))) return false;
  }
  return true;
}

void widen(const std::byte* from, std::size_t n_bytes, std::size_t n, std::size_t n_cols,
           double* out, std::size_t stride) {
  const Numbers d;
  const hn::Rebind<float, Numbers> f;
  for (std::size_t i = 0; i < n; ++i, from += n_bytes, out += stride) {
    const auto* const values = reinterpret_cast<const float*>(from);
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d))
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(f, values + c)), d, out + c);
    for (; c < n_cols; ++c) out[c] = static_cast<double>(values[c]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::series
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::series {
namespace {

HWY_EXPORT(sum_rows);
HWY_EXPORT(sum_distances);
HWY_EXPORT(find_missing);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_f64);
HWY_EXPORT(narrow);
HWY_EXPORT(widen);

}  // namespace

void sum_columns(const NumberRows& rows, std::size_t n_cols, const ColumnSums& out) {
  HWY_DYNAMIC_DISPATCH(sum_rows)(rows, n_cols, out);
}

void sum_squares(const NumberRows& rows, std::size_t n_cols, const double* means, double* out) {
  HWY_DYNAMIC_DISPATCH(sum_distances)(rows, n_cols, means, out);
}

bool has_missing(const NumberRows& rows, std::size_t n_cols) {
  return HWY_DYNAMIC_DISPATCH(find_missing)(rows, n_cols);
}

bool scale_rows(const NumberRows& rows, std::size_t n_cols, const double* center,
                const double* scale, float* out) {
  return HWY_DYNAMIC_DISPATCH(scale_f32)(rows, n_cols, center, scale, out);
}

bool scale_rows(const NumberRows& rows, std::size_t n_cols, const double* center,
                const double* scale, double* out) {
  return HWY_DYNAMIC_DISPATCH(scale_f64)(rows, n_cols, center, scale, out);
}

bool narrow_rows(const NumberRows& rows, std::size_t n_cols, std::byte* out, std::size_t n_bytes) {
  return HWY_DYNAMIC_DISPATCH(narrow)(rows, n_cols, out, n_bytes);
}

void widen_rows(const std::byte* from, std::size_t n_bytes, std::size_t n, std::size_t n_cols,
                double* out, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(widen)(from, n_bytes, n, n_cols, out, stride);
}

}  // namespace cellfeed::series
#endif
