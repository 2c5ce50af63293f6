// Packing: exact choice of widths by counting what is above each power of two, then bits by 64-bit
// words.
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
  if (plan.widths.base_bits > 0) pack_base(numbers, entries, plan.widths.base_bits, to);
  to += plan.widths.base_bytes(entries);
  if (plan.widths.exceptions > 0) pack_exceptions(numbers, plan, to);
  return to + plan.widths.exception_bytes();
}

struct Narrowed {};
void Narrow(const std::uint32_t*, Narrowed&) {}
StreamPlan PlanNarrowed(const std::uint32_t* numbers, const Narrowed&, int entries) {
  return PlanStream(numbers, entries);
}
std::uint8_t* PackNarrowed(const std::uint32_t* numbers, const Narrowed&, int entries,
                           const StreamPlan& plan, std::uint8_t* to) {
  return PackStream(numbers, entries, plan, to);
}

std::int32_t FindGaps(const std::int32_t* indices, std::size_t n, std::int32_t previous,
                      std::uint32_t* gaps) {
  std::int32_t signs = 0;
  for (std::size_t i = 0; i < n; previous = indices[i++]) {
    gaps[i] = static_cast<std::uint32_t>(indices[i]) - static_cast<std::uint32_t>(previous) - 1;
    signs |= indices[i] | static_cast<std::int32_t>(gaps[i]);
  }
  return signs;
}

#else

using DI32 = hn::CappedTag<std::int32_t, 16>;
using DU8 = hn::Repartition<std::uint8_t, DI32>;
constexpr std::size_t kLanes = HWY_MAX_BYTES >= 64 ? 16 : HWY_MAX_BYTES / 4;
constexpr std::size_t kByteLanes = 4 * kLanes;
constexpr std::size_t kBlock = kBlockEntries;

// A block with each number as a byte, 255 for those above.
struct Narrowed {
  alignas(64) std::uint8_t bytes[kBlock];
};

void Narrow(const std::uint32_t* numbers, Narrowed& narrowed) {
  const DI32 d;
  const hn::Rebind<std::uint8_t, DI32> d8;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  // Highway 1.0 narrows 0x8000 to 0x80ff as if their upper byte were not there.
  const auto most = hn::Set(d, 255);
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    hn::StoreU(hn::DemoteTo(d8, hn::Min(hn::LoadU(d, from + i), most)), d8, narrowed.bytes + i);
}

std::uint32_t Largest(const std::uint32_t* numbers) {
  const DI32 d;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  auto most = hn::LoadU(d, from);
  for (std::size_t i = kLanes; i < kBlock; i += kLanes)
    most = hn::Max(most, hn::LoadU(d, from + i));
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
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
int CountBytesAbove(const Narrowed& narrowed, std::uint32_t limit) {
  const DU8 d;
  const auto threshold = hn::Set(d, static_cast<std::uint8_t>(limit));
  std::size_t count = 0;
  for (std::size_t i = 0; i < kBlock; i += kByteLanes)
    count += hn::CountTrue(d, hn::Gt(hn::Load(d, narrowed.bytes + i), threshold));
  return static_cast<int>(count);
}

template <typename D, typename T>
void FindAbove(D d, const T* numbers, T limit, std::uint64_t* above) {
  const auto threshold = hn::Set(d, limit);
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, numbers + i), threshold), bits);
    above[i / 64] |= load<std::uint64_t>(bits) << (i % 64);
  }
}

StreamPlan PlanNarrowed(const std::uint32_t* numbers, const Narrowed& narrowed, int entries) {
  StreamPlan plan;
  plan.widths = choose_widths(Largest(numbers), entries, [&](std::uint32_t limit) {
    return limit < 255 ? CountBytesAbove(narrowed, limit) : CountAbove(numbers, limit);
  });
  if (plan.widths.exceptions == 0) return plan;
  const std::uint32_t limit = (std::uint32_t{1} << plan.widths.base_bits) - 1;
  if (limit < 255)
    FindAbove(DU8(), narrowed.bytes, static_cast<std::uint8_t>(limit), plan.has_high);
  else
    FindAbove(DI32(), reinterpret_cast<const std::int32_t*>(numbers),
              static_cast<std::int32_t>(limit), plan.has_high);
  return plan;
}

StreamPlan PlanStream(const std::uint32_t* numbers, int entries) {
  Narrowed narrowed;
  Narrow(numbers, narrowed);
  return PlanNarrowed(numbers, narrowed, entries);
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
void KeepLowBytes(const std::uint32_t* numbers, Narrowed& low) {
  const DI32 d;
  const hn::Rebind<std::uint8_t, DI32> d8;
  const auto* from = reinterpret_cast<const std::int32_t*>(numbers);
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    hn::StoreU(hn::DemoteTo(d8, hn::And(hn::LoadU(d, from + i), hn::Set(d, 0xff))), d8,
               low.bytes + i);
}

std::uint8_t* PackNarrowed(const std::uint32_t* numbers, const Narrowed& narrowed, int entries,
                           const StreamPlan& plan, std::uint8_t* to) {
  const int bits = plan.widths.base_bits;
  if (bits > 8) {
    pack_base(numbers, entries, bits, to);
  } else if (bits > 0 && plan.widths.max_bits() <= 8) {
    PackBytes(narrowed.bytes, entries, bits, to);
  } else if (bits > 0) {
    Narrowed low;
    KeepLowBytes(numbers, low);
    PackBytes(low.bytes, entries, bits, to);
  }
  to += plan.widths.base_bytes(entries);
  if (plan.widths.exceptions > 0) pack_exceptions(numbers, plan, to);
  return to + plan.widths.exception_bytes();
}

std::uint8_t* PackStream(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                         std::uint8_t* to) {
  Narrowed narrowed;
  Narrow(numbers, narrowed);
  return PackNarrowed(numbers, narrowed, entries, plan, to);
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

#endif

// Several blocks at a time, so that what is narrowed has left for the cache when it is read as
// wider vectors.
std::uint8_t* PackBlocks(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                         std::uint8_t* words, std::uint8_t* to) {
  constexpr std::size_t kBlocks = 8;
  constexpr std::size_t kEntries = kBlocks * kBlockEntries;
  alignas(64) std::uint32_t gaps[kEntries + 16];
  std::uint32_t last_codes[kBlockEntries];
  Narrowed narrow_gaps[kBlocks], narrow_codes[kBlocks];
  std::int32_t previous = -1;
  const auto put = [&](const std::uint32_t* numbers, const Narrowed& narrowed, int entries) {
    const StreamPlan plan = PlanNarrowed(numbers, narrowed, entries);
    const std::uint16_t word = plan.widths.word();
    std::memcpy(words, &word, sizeof word);
    words += sizeof word;
    to = PackNarrowed(numbers, narrowed, entries, plan, to);
  };
  for (std::size_t first = 0; first < indices.size(); first += kEntries) {
    const std::size_t n = std::min(kEntries, indices.size() - first);
    const std::size_t n_blocks = (n + kBlockEntries - 1) / kBlockEntries;
    if (FindGaps(indices.data() + first, n, previous, gaps) < 0) return nullptr;
    previous = indices[first + n - 1];
    std::fill(gaps + n, gaps + n_blocks * kBlockEntries, 0);
    const std::size_t last_entries = n - (n_blocks - 1) * kBlockEntries;
    const auto codes_of = [&](std::size_t block) {
      const std::uint32_t* from = codes + first + block * kBlockEntries;
      return block + 1 < n_blocks || last_entries == kBlockEntries ? from : last_codes;
    };
    if (codes != nullptr)
      padded(codes + first + (n_blocks - 1) * kBlockEntries, last_entries, last_codes);
    for (std::size_t block = 0; block < n_blocks; ++block) {
      Narrow(gaps + block * kBlockEntries, narrow_gaps[block]);
      if (codes != nullptr) Narrow(codes_of(block), narrow_codes[block]);
    }
    for (std::size_t block = 0; block < n_blocks; ++block) {
      const int entries = static_cast<int>(block + 1 < n_blocks ? kBlockEntries : last_entries);
      put(gaps + block * kBlockEntries, narrow_gaps[block], entries);
      if (codes != nullptr) put(codes_of(block), narrow_codes[block], entries);
    }
  }
  return to;
}

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
  return HWY_DYNAMIC_DISPATCH(PackStream)(numbers, entries, plan, to);
}

std::uint8_t* pack_blocks(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                          std::uint8_t* words, std::uint8_t* blocks) {
  return HWY_DYNAMIC_DISPATCH(PackBlocks)(indices, codes, words, blocks);
}

}  // namespace cellfeed::format::shard::record
#endif
