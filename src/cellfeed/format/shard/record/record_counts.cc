// float32 values to counts, a vector at a time: a value is a count when turning it to an integer
// and back gives its bits again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/shard/record/record_counts.cc"
#include <hwy/foreach_target.h>  // includes this file once a target
//
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "cellfeed/format/shard/record/record_counts.h"

#ifndef CELLFEED_FORMAT_SHARD_RECORD_COUNTS_SCALAR_
#define CELLFEED_FORMAT_SHARD_RECORD_COUNTS_SCALAR_
namespace cellfeed::format::shard::record {

inline constexpr float kLargestFloatCount = 2147483520.0F;  // the largest float below 2^31

inline void count_value(float value, CountedValues& found, std::uint32_t* code) {
  const bool in_range = value >= 0.0F && value <= kLargestFloatCount;
  const auto number = static_cast<std::int32_t>(in_range ? value : 0.0F);
  found.all &= in_range && std::bit_cast<std::uint32_t>(static_cast<float>(number)) ==
                               std::bit_cast<std::uint32_t>(value);
  const auto count = static_cast<std::uint32_t>(number);
  *code = count - 1;
  found.smallest = std::min(found.smallest, count);
}

}  // namespace cellfeed::format::shard::record
#endif

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format::shard::record {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

CountedValues CountValues(const float* values, std::size_t n, std::uint32_t* codes) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  auto* to = reinterpret_cast<std::int32_t*>(codes);
  const std::size_t lanes = hn::Lanes(df);
  const auto largest = hn::Set(df, kLargestFloatCount);
  const auto one = hn::Set(di, 1);
  auto smallest = one;
  auto wrong = hn::Zero(di);
  // Stops early between pieces only, so that a piece is a loop without branches.
  constexpr std::size_t kPiece = 256;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if (i % kPiece == 0 && !hn::AllTrue(di, hn::Eq(wrong, hn::Zero(di)))) return {.all = false};
    const auto value = hn::LoadU(df, values + i);
    // 0 where the value is NaN or out of range: then the bits differ, but for zeros.
    const auto number = hn::ConvertTo(di, hn::IfThenElseZero(hn::Le(value, largest), value));
    wrong =
        hn::Or(wrong, hn::Xor(hn::BitCast(di, hn::ConvertTo(df, number)), hn::BitCast(di, value)));
    // Negative whole numbers give their bits again.
    wrong = hn::Or(wrong, hn::ShiftRight<31>(hn::BitCast(di, value)));
    smallest = hn::Min(smallest, number);
    hn::StoreU(hn::Sub(number, one), di, to + i);
  }
  CountedValues found;
  found.all = hn::AllTrue(di, hn::Eq(wrong, hn::Zero(di)));
  found.smallest = hn::AllTrue(di, hn::Gt(smallest, hn::Zero(di))) ? 1 : 0;
  for (; i < n && found.all; ++i) count_value(values[i], found, codes + i);
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format::shard::record
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format::shard::record {

HWY_EXPORT(CountValues);

CountedValues count_values(const float* values, std::size_t n, std::uint32_t* codes) {
  return HWY_DYNAMIC_DISPATCH(CountValues)(values, n, codes);
}

}  // namespace cellfeed::format::shard::record
#endif
