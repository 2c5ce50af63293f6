// Packing: exact choice of widths by counting what is above each power of two, then bits by 64-bit
// words.
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/shard/record_pack.cc"
#include <hwy/foreach_target.h>  // includes this file once a target
//
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "cellfeed/format/shard/record_pack.h"

#ifndef CELLFEED_FORMAT_SHARD_RECORD_PACK_WIDTHS_
#define CELLFEED_FORMAT_SHARD_RECORD_PACK_WIDTHS_
namespace cellfeed::format::shard::record {

// The best widths when count_above(t) tells how many numbers are above t.
template <typename CountAbove>
StreamWidths choose_widths(std::uint32_t largest, int entries, CountAbove count_above) {
  const int max_bits = static_cast<int>(std::bit_width(largest));
  StreamWidths best{max_bits, 0, 0};
  std::size_t best_bytes = best.bytes(entries);
  for (int bits = max_bits; bits-- > 0;) {
    const int exceptions = count_above((std::uint32_t{1} << bits) - 1);
    // Fewer bits only make more exceptions.
    if (exceptions > kMaxExceptions) break;
    const StreamWidths widths{bits, static_cast<int>(std::bit_width((largest >> bits) - 1)),
                              exceptions};
    const std::size_t bytes = widths.bytes(entries);
    if (bytes < best_bytes) {
      best = widths;
      best_bytes = bytes;
    }
  }
  return best;
}

}  // namespace cellfeed::format::shard::record
#endif

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format::shard::record {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
StreamPlan PlanStream(const std::uint32_t* numbers, int entries) {
  return plan_stream_scalar(numbers, entries);
}
#else

using DI32 = hn::CappedTag<std::int32_t, 16>;

StreamPlan PlanStream(const std::uint32_t* numbers, int entries) {
  const DI32 d;
  constexpr std::size_t kLanes = HWY_MAX_BYTES >= 64 ? 16 : HWY_MAX_BYTES / 4;
  constexpr std::size_t kVectors = kBlockEntries / kLanes;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  auto most = hn::Zero(d);
  for (std::size_t i = 0; i < kVectors; ++i) most = hn::Max(most, hn::LoadU(d, from + i * kLanes));
  const auto largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
  const auto count_above = [&](std::uint32_t limit) HWY_ATTR {
    const auto threshold = hn::Set(d, static_cast<std::int32_t>(limit));
    auto sum = hn::Zero(d);
    for (std::size_t i = 0; i < kVectors; ++i) {
      sum = hn::Sub(sum, hn::VecFromMask(d, hn::Gt(hn::LoadU(d, from + i * kLanes), threshold)));
    }
    return hn::GetLane(hn::SumOfLanes(d, sum));
  };
  StreamPlan plan;
  plan.widths = choose_widths(largest, entries, count_above);
  if (plan.widths.exceptions > 0) {
    const auto threshold =
        hn::Set(d, static_cast<std::int32_t>((std::uint32_t{1} << plan.widths.base_bits) - 1));
    for (std::size_t i = 0; i < static_cast<std::size_t>(kBlockEntries); i += kLanes) {
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, from + i), threshold), bits);
      plan.has_high[i / 64] |= load<std::uint64_t>(bits) << (i % 64);
    }
  }
  return plan;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format::shard::record
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format::shard::record {
namespace {

HWY_EXPORT(PlanStream);

// Appends fields of bits, lowest bit first. Writes up to 8 bytes behind what is packed.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* to) : to_(to) {}

  void put(std::uint64_t field, int bits) {  // bits <= 48
    pending_ |= field << filled_;
    filled_ += bits;
    std::memcpy(to_, &pending_, sizeof(pending_));
    const int whole = filled_ >> 3;
    to_ += whole;
    filled_ &= 7;
    pending_ >>= 8 * whole;
  }
  std::uint8_t* end() const { return to_ + (filled_ > 0 ? 1 : 0); }

 private:
  std::uint8_t* to_;
  std::uint64_t pending_ = 0;
  int filled_ = 0;
};

// Four numbers of at most 16 bits as one word.
std::uint64_t join_four(const std::uint32_t* numbers, std::uint32_t mask, int bits) {
  const std::uint64_t low = (numbers[0] & mask) | std::uint64_t{numbers[1] & mask} << bits;
  const std::uint64_t high = (numbers[2] & mask) | std::uint64_t{numbers[3] & mask} << bits;
  return low | high << (2 * bits);
}

// Eight numbers of at most 15 bits; writes 16 bytes, of which `bits` count.
void pack_eight(const std::uint32_t* numbers, std::uint32_t mask, int bits, std::uint8_t* to) {
  const std::uint64_t low = join_four(numbers, mask, bits);
  const std::uint64_t high = join_four(numbers + 4, mask, bits);
  const int whole = 4 * bits / 8;
  const int rest = 4 * bits % 8;
  const std::uint64_t next = (low >> (8 * whole)) | high << rest;
  std::memcpy(to, &low, sizeof(low));
  std::memcpy(to + whole, &next, sizeof(next));
}

void pack_base(const std::uint32_t* numbers, int entries, int bits, std::uint8_t* to) {
  const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
  if (bits <= 15) {
    for (int i = 0; i < entries; i += 8, to += bits) pack_eight(numbers + i, mask, bits, to);
    return;
  }
  BitWriter writer(to);
  for (int i = 0; i < entries; ++i) writer.put(numbers[i] & mask, bits);
}

void pack_exceptions(const std::uint32_t* numbers, const StreamPlan& plan, std::uint8_t* to) {
  BitWriter writer(to);
  for (int half = 0; half < 2; ++half) {
    for (std::uint64_t left = plan.has_high[half]; left != 0; left &= left - 1) {
      const int position = 64 * half + std::countr_zero(left);
      const std::uint64_t high = (numbers[position] >> plan.widths.base_bits) - 1;
      writer.put(static_cast<std::uint64_t>(position) | high << kPositionBits,
                 kPositionBits + plan.widths.high_bits);
    }
  }
}

}  // namespace

StreamPlan plan_stream_scalar(const std::uint32_t* numbers, int entries) {
  StreamPlan plan;
  const std::uint32_t largest = *std::max_element(numbers, numbers + kBlockEntries);
  plan.widths = choose_widths(largest, entries, [&](std::uint32_t limit) {
    return static_cast<int>(std::count_if(numbers, numbers + kBlockEntries,
                                          [&](std::uint32_t n) { return n > limit; }));
  });
  for (int i = 0; i < kBlockEntries && plan.widths.exceptions > 0; ++i) {
    plan.has_high[i / 64] |= std::uint64_t{numbers[i] >> plan.widths.base_bits != 0} << (i % 64);
  }
  return plan;
}

StreamPlan plan_stream(const std::uint32_t* numbers, int entries) {
  return HWY_DYNAMIC_DISPATCH(PlanStream)(numbers, entries);
}

std::uint8_t* pack_stream(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                          std::uint8_t* to) {
  if (plan.widths.base_bits > 0) pack_base(numbers, entries, plan.widths.base_bits, to);
  to += plan.widths.base_bytes(entries);
  if (plan.widths.exceptions > 0) pack_exceptions(numbers, plan, to);
  return to + plan.widths.exception_bytes();
}

}  // namespace cellfeed::format::shard::record
#endif
