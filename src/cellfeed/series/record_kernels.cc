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

std::uint64_t lost_bits(double value, float narrowed) {
  return std::bit_cast<std::uint64_t>(value) ^
         std::bit_cast<std::uint64_t>(static_cast<double>(narrowed));
}

// A number of a row as a double, and several.
template <typename From>
double number(const std::byte* row, std::size_t c) {
  return static_cast<double>(reinterpret_cast<const From*>(row)[c]);
}
template <typename From>
HWY_INLINE hn::Vec<Numbers> numbers(const std::byte* row, std::size_t c) {
  const Numbers d;
  const auto* const at = reinterpret_cast<const From*>(row) + c;
  if constexpr (sizeof(From) == 4)
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Numbers>(), at));
  else
    return hn::LoadU(d, at);
}

template <typename From>
void sum_from(const NumberRows& rows, std::size_t n_cols, const ColumnSums& out) {
  const Numbers d;
  constexpr double kMost = std::numeric_limits<double>::infinity();
  std::size_t c = 0;
  for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
    auto count = hn::Zero(d), sum = hn::Zero(d);
    auto least = hn::Set(d, kMost), most = hn::Set(d, -kMost);
    const auto one = hn::Set(d, 1.0);
    const std::byte* row = rows.data;
    for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes) {
      const auto value = numbers<From>(row, c);
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
    const std::byte* row = rows.data;
    for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes) {
      const double value = number<From>(row, c);
      const bool is_there = !std::isnan(value);
      count += is_there ? 1 : 0;
      sum += is_there ? value : 0;
      least = value < least ? value : least;
      most = value > most ? value : most;
    }
    out.count[c] = count;
    out.sum[c] = sum;
    out.least[c] = least;
    out.most[c] = most;
  }
}

template <typename From>
void sum_distances_from(const NumberRows& rows, std::size_t n_cols, const double* means,
                        double* out) {
  const Numbers d;
  std::size_t c = 0;
  for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    const auto mean = hn::LoadU(d, means + c);
    const std::byte* row = rows.data;
    for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes) {
      const auto distance = hn::Sub(numbers<From>(row, c), mean);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::IsNaN(distance), hn::Mul(distance, distance)));
    }
    hn::StoreU(sum, d, out + c);
  }
  for (; c < n_cols; ++c) {
    double sum = 0;
    const std::byte* row = rows.data;
    for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes) {
      const double distance = number<From>(row, c) - means[c];
      sum += std::isnan(distance) ? 0 : distance * distance;
    }
    out[c] = sum;
  }
}

template <typename From>
bool find_missing_from(const NumberRows& rows, std::size_t n_cols) {
  const Numbers d;
  auto found = hn::FirstN(d, 0);
  bool is_found = false;
  const std::byte* row = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes) {
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d))
      found = hn::Or(found, hn::IsNaN(numbers<From>(row, c)));
    for (; c < n_cols; ++c) is_found |= std::isnan(number<From>(row, c));
  }
  return is_found || !hn::AllFalse(d, found);
}

template <typename From, typename T>
bool scale_from(const NumberRows& rows, std::size_t n_cols, const double* HWY_RESTRICT center,
                const double* HWY_RESTRICT by, T* HWY_RESTRICT out) {
  const Numbers d;
  const hn::Rebind<T, Numbers> t;
  // The least that becomes infinite as T; looked at before, since not all sets make it infinite.
  constexpr double kBeyond =
      sizeof(T) == 4 ? 0x1.ffffffp127 : std::numeric_limits<double>::infinity();
  const auto limit = hn::Set(d, kBeyond);
  auto beyond = hn::FirstN(d, 0);
  bool is_beyond = false;
  const std::byte* row = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes, out += n_cols) {
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d)) {
      const auto scaled =
          hn::Div(hn::Sub(numbers<From>(row, c), hn::LoadU(d, center + c)), hn::LoadU(d, by + c));
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
      const double scaled = (number<From>(row, c) - center[c]) / by[c];
      out[c] = static_cast<T>(scaled);
      is_beyond |= std::abs(scaled) >= kBeyond;
    }
  }
  return !is_beyond && hn::AllFalse(d, beyond);
}

// ---- Of either width.

void sum_rows(const NumberRows& rows, std::size_t n_cols, const ColumnSums& out) {
  rows.is_narrow ? sum_from<float>(rows, n_cols, out) : sum_from<double>(rows, n_cols, out);
}
void sum_distances(const NumberRows& rows, std::size_t n_cols, const double* means, double* out) {
  rows.is_narrow ? sum_distances_from<float>(rows, n_cols, means, out)
                 : sum_distances_from<double>(rows, n_cols, means, out);
}
bool find_missing(const NumberRows& rows, std::size_t n_cols) {
  return rows.is_narrow ? find_missing_from<float>(rows, n_cols)
                        : find_missing_from<double>(rows, n_cols);
}
bool scale_f32(const NumberRows& rows, std::size_t n_cols, const double* center, const double* by,
               float* out) {
  return rows.is_narrow ? scale_from<float>(rows, n_cols, center, by, out)
                        : scale_from<double>(rows, n_cols, center, by, out);
}
bool scale_f64(const NumberRows& rows, std::size_t n_cols, const double* center, const double* by,
               double* out) {
  return rows.is_narrow ? scale_from<float>(rows, n_cols, center, by, out)
                        : scale_from<double>(rows, n_cols, center, by, out);
}

bool narrow(const NumberRows& rows, std::size_t n_cols, std::byte* out, std::size_t n_bytes) {
  const Numbers d;
  const hn::RebindToUnsigned<Numbers> bits;
  const hn::Rebind<float, Numbers> f;
  const std::byte* from = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, from += rows.n_bytes, out += n_bytes) {
    const auto* const row = reinterpret_cast<const double*>(from);
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
      last_lost |= lost_bits(row[c], to[c]);
    }
    if (last_lost != 0 || !hn::AllTrue(bits, hn::Eq(lost, hn::Zero(bits)))) return false;
  }
  return true;
}

void widen(const NumberRows& rows, std::size_t n_cols, double* out, std::size_t stride) {
  const Numbers d;
  const std::byte* row = rows.data;
  for (std::size_t i = 0; i < rows.n; ++i, row += rows.n_bytes, out += stride) {
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= n_cols; c += hn::Lanes(d))
      hn::StoreU(numbers<float>(row, c), d, out + c);
    for (; c < n_cols; ++c) out[c] = number<float>(row, c);
  }
}

#if HWY_TARGET != HWY_SCALAR
constexpr std::size_t kTurned = 4;  // columns, at a time

// Four numbers of a column; `lost` gets bits where float32 does not hold one.
using Four = hn::FixedTag<float, 4>;
using Two = hn::FixedTag<double, 2>;  // vectors of doubles may be no longer
using TwoBits = hn::RebindToUnsigned<Two>;

HWY_INLINE hn::Vec<Four> four(const float* column, hn::Vec<TwoBits>&) {
  return hn::LoadU(Four(), column);
}
HWY_INLINE hn::Vec<Four> four(const double* column, hn::Vec<TwoBits>& lost) {
  const hn::Half<Four> half;
  const auto low = hn::LoadU(Two(), column), high = hn::LoadU(Two(), column + 2);
  const auto narrow_low = hn::DemoteTo(half, low), narrow_high = hn::DemoteTo(half, high);
  const auto lost_of = [](hn::Vec<Two> value, hn::Vec<hn::Half<Four>> narrowed) {
    return hn::Xor(hn::BitCast(TwoBits(), value),
                   hn::BitCast(TwoBits(), hn::PromoteTo(Two(), narrowed)));
  };
  lost = hn::Or(lost, hn::Or(lost_of(low, narrow_low), lost_of(high, narrow_high)));
  return hn::Combine(Four(), narrow_high, narrow_low);
}

// Four rows of four columns; false where one of the numbers may not be kept so.
template <typename From>
HWY_INLINE bool turn_four(const From* const* columns, std::size_t i, std::byte* out,
                          std::size_t n_bytes) {
  const Four f;
  const Two pairs;
  auto lost = hn::Zero(TwoBits());
  const auto a = four(columns[0] + i, lost), b = four(columns[1] + i, lost);
  const auto c = four(columns[2] + i, lost), d = four(columns[3] + i, lost);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(f, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(f, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(f, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(f, c, d));
  const auto store = [&](std::size_t row, hn::Vec<decltype(pairs)> numbers) {
    hn::StoreU(hn::BitCast(f, numbers), f, reinterpret_cast<float*>(out + row * n_bytes));
  };
  store(0, hn::InterleaveLower(pairs, ab_low, cd_low));
  store(1, hn::InterleaveUpper(pairs, ab_low, cd_low));
  store(2, hn::InterleaveLower(pairs, ab_high, cd_high));
  store(3, hn::InterleaveUpper(pairs, ab_high, cd_high));
  const auto is_infinite =
      hn::Or(hn::Or(hn::IsInf(a), hn::IsInf(b)), hn::Or(hn::IsInf(c), hn::IsInf(d)));
  return hn::AllFalse(f, is_infinite) && hn::AllTrue(TwoBits(), hn::Eq(lost, hn::Zero(TwoBits())));
}

#endif

// So many rows at a time that those of all columns stay in the nearest cache.
template <typename From>
bool interleave(std::span<const From* const> columns, std::size_t n, std::byte* out,
                std::size_t n_bytes) {
  constexpr std::size_t kRows = 32;
  for (std::size_t first = 0; first < n; first += kRows) {
    const std::size_t end = first + kRows < n ? first + kRows : n;
    bool is_kept = true;
    const auto keep_one = [&](std::size_t i, std::size_t c) {
      const From value = columns[c][i];
      const auto narrowed = static_cast<float>(value);
      std::memcpy(out + i * n_bytes + c * sizeof narrowed, &narrowed, sizeof narrowed);
      is_kept &= !std::isinf(narrowed) && lost_bits(static_cast<double>(value), narrowed) == 0;
    };
    std::size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; c + kTurned <= columns.size(); c += kTurned) {
      std::size_t i = first;
      for (; i + kTurned <= end; i += kTurned)
        is_kept &= turn_four(&columns[c], i, out + i * n_bytes + c * sizeof(float), n_bytes);
      for (; i < end; ++i)
        for (std::size_t k = c; k < c + kTurned; ++k) keep_one(i, k);
    }
#endif
    for (; c < columns.size(); ++c)
      for (std::size_t i = first; i < end; ++i) keep_one(i, c);
    if (!is_kept) return false;
  }
  return true;
}

bool interleave_f32(std::span<const float* const> columns, std::size_t n, std::byte* out,
                    std::size_t n_bytes) {
  return interleave(columns, n, out, n_bytes);
}
bool interleave_f64(std::span<const double* const> columns, std::size_t n, std::byte* out,
                    std::size_t n_bytes) {
  return interleave(columns, n, out, n_bytes);
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
HWY_EXPORT(interleave_f32);
HWY_EXPORT(interleave_f64);

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

void widen_rows(const NumberRows& rows, std::size_t n_cols, double* out, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(widen)(rows, n_cols, out, stride);
}

bool interleave_narrow(std::span<const float* const> columns, std::size_t n, std::byte* out,
                       std::size_t n_bytes) {
  return HWY_DYNAMIC_DISPATCH(interleave_f32)(columns, n, out, n_bytes);
}

bool interleave_narrow(std::span<const double* const> columns, std::size_t n, std::byte* out,
                       std::size_t n_bytes) {
  return HWY_DYNAMIC_DISPATCH(interleave_f64)(columns, n, out, n_bytes);
}

}  // namespace cellfeed::series
#endif
