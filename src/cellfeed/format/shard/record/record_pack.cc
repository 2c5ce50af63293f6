// Packing by vectors: exact choice of widths by counting what is above each power of two, of many
// blocks side by side, then bits by 64-bit words.
#define HWY_WANT_AVX3_DL
// Vectors of known length are needed: machines with SVE have NEON too.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/shard/record/record_pack.cc"
#include <hwy/foreach_target.h>  // includes this file once a target
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cellfeed/format/shard/record/record_bits.h"
#include "cellfeed/format/shard/record/record_pack.h"

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format::shard::record {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE

StreamPlan PlanStream(const std::uint32_t* numbers, int entries) {
  return plan_stream_scalar(numbers, entries);
}

std::uint8_t* PackStream(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                         std::uint8_t* to) {
  return pack_stream_scalar(numbers, entries, plan, to);
}

std::uint8_t* PackBlocks(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                         std::uint8_t* words, std::uint8_t* to) {
  return pack_blocks_scalar(indices, codes, words, to);
}

#else

using DI32 = hn::CappedTag<std::int32_t, 16>;
using DU8 = hn::Repartition<std::uint8_t, DI32>;
constexpr std::size_t kLanes = HWY_MAX_BYTES >= 64 ? 16 : HWY_MAX_BYTES / 4;
constexpr std::size_t kByteLanes = 4 * kLanes;
constexpr std::size_t kBlock = kBlockEntries;

// Blocks whose widths are chosen side by side, a lane each.
constexpr std::size_t kGroup = 16;
constexpr int kByteBits = 8;
using Lanes = std::int32_t[kGroup];

struct Group {
  std::size_t n = 0;
  const std::uint32_t* numbers[kGroup];
  // Each number as a byte, 255 for those above.
  alignas(64) std::uint8_t bytes[kGroup][kBlock];
  alignas(64) Lanes entries;
  alignas(64) Lanes max_bits;
  // Without its highest bit the largest number has so many.
  alignas(64) Lanes lower_bits;
  alignas(64) Lanes above[kByteBits];  // how many numbers need more bits
  // The best so far.
  alignas(64) Lanes base_bits;
  alignas(64) Lanes exceptions;
  alignas(64) Lanes total;  // in bytes
};

std::uint32_t Narrow(const std::uint32_t* numbers, std::uint8_t* bytes) {
  const DI32 d;
  const hn::Rebind<std::uint8_t, DI32> d8;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  // Highway 1.0 narrows 0x8000 to 0x80ff as if their upper byte were not there.
  const auto most = hn::Set(d, 255);
  auto largest = hn::Zero(d);
  for (std::size_t i = 0; i < kBlock; i += kLanes) {
    const auto v = hn::LoadU(d, from + i);
    largest = hn::Max(largest, v);
    hn::StoreU(hn::DemoteTo(d8, hn::Min(v, most)), d8, bytes + i);
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, largest)));
}

int CountAbove(const std::uint32_t* numbers, std::uint32_t limit) {
  const DI32 d;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  const auto threshold = hn::Set(d, static_cast<std::int32_t>(limit));
  std::size_t count = 0;
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    count += hn::CountTrue(d, hn::Gt(hn::LoadU(d, from + i), threshold));
  return static_cast<int>(count);
}

// REQUIRES: limit < 255.
HWY_INLINE int CountBytesAbove(const std::uint8_t* bytes, std::uint32_t limit) {
  const DU8 d;
  const auto threshold = hn::Set(d, static_cast<std::uint8_t>(limit));
  std::size_t count = 0;
  for (std::size_t i = 0; i < kBlock; i += kByteLanes)
    count += hn::CountTrue(d, hn::Gt(hn::Load(d, bytes + i), threshold));
  return static_cast<int>(count);
}

void AddBlock(const std::uint32_t* numbers, int entries, Group& group) {
  const std::size_t lane = group.n++;
  group.numbers[lane] = numbers;
  const std::uint32_t largest = Narrow(numbers, group.bytes[lane]);
  group.entries[lane] = entries;
  const int max_bits = static_cast<int>(std::bit_width(largest));
  group.max_bits[lane] = max_bits;
  group.lower_bits[lane] = static_cast<int>(std::bit_width(largest ^ std::bit_floor(largest)));
  // Of more bits than a byte has there are few blocks.
  const StreamWidths widths =
      choose_widths(largest, entries, std::min(kByteBits, max_bits),
                    [&](std::uint32_t limit) { return CountAbove(numbers, limit); });
  group.base_bits[lane] = widths.base_bits;
  group.exceptions[lane] = widths.exceptions;
  group.total[lane] = static_cast<std::int32_t>(widths.bytes(entries));
}

// So that what is narrowed has left for the cache when it is read as wider vectors, after all
// blocks were added.
void CountBits(Group& group) {
  for (std::size_t lane = 0; lane < group.n; ++lane)
    for (int bits = 0; bits < kByteBits; ++bits)
      group.above[bits][lane] = CountBytesAbove(group.bytes[lane], (1u << bits) - 1);
}

// As choose_widths does for a block, of bits from 7 on. Lanes behind n hold anything.
void ChooseWidths(Group& group) {
  const DI32 d;
  const auto eight_less_one = hn::Set(d, 7);
  for (std::size_t i = 0; i < group.n; i += kLanes) {
    const auto entries = hn::Load(d, group.entries + i);
    const auto max_bits = hn::Load(d, group.max_bits + i);
    const auto lower_bits = hn::Load(d, group.lower_bits + i);
    auto best_bits = hn::Load(d, group.base_bits + i);
    auto best_exceptions = hn::Load(d, group.exceptions + i);
    auto best = hn::Load(d, group.total + i);
    for (int b = kByteBits; b-- > 0;) {
      const auto bits = hn::Set(d, b);
      const auto exceptions = hn::Load(d, group.above[b] + i);
      // Of (largest >> b) - 1: a bit less where the largest is a power of two but for b bits.
      const auto less = hn::VecFromMask(d, hn::Gt(hn::Set(d, b + 1), lower_bits));  // -1 or 0
      const auto field = hn::Add(hn::Add(hn::Sub(max_bits, bits), less), hn::Set(d, kPositionBits));
      const auto total =
          hn::Add(hn::ShiftRight<3>(hn::Add(hn::Mul(entries, bits), eight_less_one)),
                  hn::ShiftRight<3>(hn::Add(hn::Mul(exceptions, field), eight_less_one)));
      const auto is_better =
          hn::And(hn::Lt(total, best), hn::Lt(exceptions, hn::Set(d, kMaxExceptions + 1)));
      best_bits = hn::IfThenElse(is_better, bits, best_bits);
      best_exceptions = hn::IfThenElse(is_better, exceptions, best_exceptions);
      best = hn::IfThenElse(is_better, total, best);
    }
    hn::Store(best_bits, d, group.base_bits + i);
    hn::Store(best_exceptions, d, group.exceptions + i);
  }
}

template <typename D, typename T>
HWY_INLINE void FindAbove(D d, const T* numbers, T limit, std::uint64_t* above) {
  const auto threshold = hn::Set(d, limit);
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, numbers + i), threshold), bits);
    above[i / 64] |= load<std::uint64_t>(bits) << (i % 64);
  }
}

HWY_INLINE StreamPlan PlanOf(const Group& group, std::size_t lane) {
  StreamPlan plan;
  plan.widths = {group.base_bits[lane], 0, group.exceptions[lane]};
  if (plan.widths.exceptions == 0) return plan;
  const int bits = plan.widths.base_bits;
  plan.widths.high_bits = group.max_bits[lane] - bits - (bits >= group.lower_bits[lane] ? 1 : 0);
  const std::uint32_t limit = (std::uint32_t{1} << bits) - 1;
  if (limit < 255)
    FindAbove(DU8(), group.bytes[lane], static_cast<std::uint8_t>(limit), plan.has_high);
  else
    FindAbove(DI32(), reinterpret_cast<const std::int32_t*>(group.numbers[lane]),
              static_cast<std::int32_t>(limit), plan.has_high);
  return plan;
}

StreamPlan PlanStream(const std::uint32_t* numbers, int entries) {
  Group group;
  AddBlock(numbers, entries, group);
  CountBits(group);
  ChooseWidths(group);
  return PlanOf(group, 0);
}

// The low `bits` (<= 8) of each byte, side by side: eight bytes become one word, of which `bits`
// bytes count. Writes 8 bytes behind the block.
void PackBytes(const std::uint8_t* bytes, int entries, int bits, std::uint8_t* to) {
  const DU8 d8;
  const hn::Repartition<std::uint16_t, DU8> d16;
  const hn::Repartition<std::uint32_t, DU8> d32;
  const hn::Repartition<std::uint64_t, DU8> d64;
  const auto mask = hn::Set(d8, static_cast<std::uint8_t>((1 << bits) - 1));
  alignas(64) std::uint64_t words[kBlock / 8];
  for (std::size_t i = 0; i < kBlock; i += kByteLanes) {
    const auto v8 = hn::BitCast(d16, hn::And(hn::LoadU(d8, bytes + i), mask));
    const auto v16 =
        hn::Or(hn::And(v8, hn::Set(d16, 0xff)), hn::ShiftLeftSame(hn::ShiftRight<8>(v8), bits));
    const auto w16 = hn::BitCast(d32, v16);
    const auto v32 = hn::Or(hn::And(w16, hn::Set(d32, 0xffff)),
                            hn::ShiftLeftSame(hn::ShiftRight<16>(w16), 2 * bits));
    const auto w32 = hn::BitCast(d64, v32);
    const auto v64 = hn::Or(hn::And(w32, hn::Set(d64, 0xffffffffu)),
                            hn::ShiftLeftSame(hn::ShiftRight<32>(w32), 4 * bits));
    hn::Store(v64, d64, words + i / 8);
  }
  for (int i = 0; i < entries; i += 8, to += bits)
    std::memcpy(to, &words[i / 8], sizeof(std::uint64_t));
}

// Numbers above 255 leave their low byte.
void KeepLowBytes(const std::uint32_t* numbers, std::uint8_t* low) {
  const DI32 d;
  const hn::Rebind<std::uint8_t, DI32> d8;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    hn::StoreU(hn::DemoteTo(d8, hn::And(hn::LoadU(d, from + i), hn::Set(d, 0xff))), d8, low + i);
}

// As pack_exceptions, where eight fields fit pack_eight.
void PackExceptions(const std::uint32_t* numbers, const StreamPlan& plan, std::uint8_t* to) {
  const int field_bits = kPositionBits + plan.widths.high_bits;
  if (field_bits > kMostBitsOfEight) return pack_exceptions(numbers, plan, to);
  const hn::RebindToUnsigned<DI32> d;
  // Zeros behind the last, so that they come to whole eights.
  std::uint32_t fields[kMaxExceptions + 8 + kLanes];
  std::size_t n = 0;
  for (std::size_t i = 0; i < kBlock; i += kLanes) {
    const std::uint64_t above = plan.has_high[i / 64] >> (i % 64);
    std::uint8_t bits[8];
    std::memcpy(bits, &above, sizeof above);
    const auto mask = hn::LoadMaskBits(d, bits);
    const auto high = hn::Sub(hn::ShiftRightSame(hn::LoadU(d, numbers + i), plan.widths.base_bits),
                              hn::Set(d, 1));
    const auto position = hn::Iota(d, static_cast<std::uint32_t>(i));
    hn::StoreU(hn::Compress(hn::Or(position, hn::ShiftLeft<kPositionBits>(high)), mask), d,
               fields + n);
    n += hn::CountTrue(d, mask);
  }
  for (std::size_t i = 0; i < 8; i += kLanes) hn::StoreU(hn::Zero(d), d, fields + n + i);
  const std::uint32_t mask = (std::uint32_t{1} << field_bits) - 1;
  for (std::size_t i = 0; i < n; i += 8, to += field_bits)
    pack_eight(fields + i, mask, field_bits, to);
}

std::uint8_t* PackNarrowed(const std::uint32_t* numbers, const std::uint8_t* bytes, int entries,
                           const StreamPlan& plan, std::uint8_t* to) {
  const int bits = plan.widths.base_bits;
  if (bits > kByteBits) {
    pack_base(numbers, entries, bits, to);
  } else if (bits > 0 && plan.widths.max_bits() <= kByteBits) {
    PackBytes(bytes, entries, bits, to);
  } else if (bits > 0) {
    alignas(64) std::uint8_t low[kBlock];
    KeepLowBytes(numbers, low);
    PackBytes(low, entries, bits, to);
  }
  to += plan.widths.base_bytes(entries);
  if (plan.widths.exceptions > 0) PackExceptions(numbers, plan, to);
  return to + plan.widths.exception_bytes();
}

std::uint8_t* PackStream(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                         std::uint8_t* to) {
  alignas(64) std::uint8_t bytes[kBlock];
  Narrow(numbers, bytes);
  return PackNarrowed(numbers, bytes, entries, plan, to);
}

// Returns a negative number when an index is negative or does not rise. REQUIRES: n > 0; gaps has
// room for a vector more.
std::int32_t FindGaps(const std::int32_t* indices, std::size_t n, std::int32_t previous,
                      std::uint32_t* gaps) {
  const DI32 d;
  auto* to = reinterpret_cast<std::int32_t*>(gaps);
  auto all = hn::Zero(d);
  const auto one = hn::Set(d, 1);
  std::size_t i = 1;
  for (; i + kLanes <= n; i += kLanes) {
    const auto index = hn::LoadU(d, indices + i);
    const auto gap = hn::Sub(hn::Sub(index, hn::LoadU(d, indices + i - 1)), one);
    hn::StoreU(gap, d, to + i);
    all = hn::Or(all, hn::Or(index, gap));
  }
  const auto gap_of = [&](std::size_t at, std::int32_t before) {
    return static_cast<std::uint32_t>(indices[at]) - static_cast<std::uint32_t>(before) - 1;
  };
  gaps[0] = gap_of(0, previous);
  std::int32_t signs = indices[0] | to[0];
  for (; i < n; ++i) {
    gaps[i] = gap_of(i, indices[i - 1]);
    signs |= indices[i] | to[i];
  }
  return hn::AllFalse(d, hn::Lt(all, hn::Zero(d))) ? signs : -1;
}

// Several blocks at a time: their widths are chosen side by side.
std::uint8_t* PackBlocks(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                         std::uint8_t* words, std::uint8_t* to) {
  constexpr std::size_t kEntries = kGroup / 2 * kBlock;
  alignas(64) std::uint32_t gaps[kEntries + 16];
  std::uint32_t last_codes[kBlock];
  Group group;
  std::int32_t previous = -1;
  for (std::size_t first = 0; first < indices.size(); first += kEntries) {
    const std::size_t n = std::min(kEntries, indices.size() - first);
    if (FindGaps(indices.data() + first, n, previous, gaps) < 0) return nullptr;
    previous = indices[first + n - 1];
    std::fill(gaps + n, gaps + (n + kBlock - 1) / kBlock * kBlock, 0);
    group.n = 0;
    for (std::size_t at = 0; at < n; at += kBlock) {
      const std::size_t entries = std::min(kBlock, n - at);
      AddBlock(gaps + at, static_cast<int>(entries), group);
      if (codes != nullptr)
        AddBlock(padded(codes + first + at, entries, last_codes), static_cast<int>(entries), group);
    }
    CountBits(group);
    ChooseWidths(group);
    for (std::size_t lane = 0; lane < group.n; ++lane) {
      const StreamPlan plan = PlanOf(group, lane);
      const std::uint16_t word = plan.widths.word();
      std::memcpy(words, &word, sizeof word);
      words += sizeof word;
      to = PackNarrowed(group.numbers[lane], group.bytes[lane], group.entries[lane], plan, to);
    }
  }
  return to;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format::shard::record
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format::shard::record {
namespace {

HWY_EXPORT(PlanStream);
HWY_EXPORT(PackStream);
HWY_EXPORT(PackBlocks);

}  // namespace

StreamPlan plan_stream(const std::uint32_t* numbers, int entries) {
  return HWY_DYNAMIC_DISPATCH(PlanStream)(numbers, entries);
}

std::uint8_t* pack_stream(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                          std::uint8_t* to) {
  return HWY_DYNAMIC_DISPATCH(PackStream)(numbers, entries, plan, to);
}

std::uint8_t* pack_blocks(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                          std::uint8_t* words, std::uint8_t* blocks) {
  return HWY_DYNAMIC_DISPATCH(PackBlocks)(indices, codes, words, blocks);
}

}  // namespace cellfeed::format::shard::record
#endif
