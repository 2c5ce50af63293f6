// Record kernels by SIMD: 16 numbers a step, chosen at run time.
#define HWY_WANT_AVX3_DL
// Vectors of known length are needed: machines with SVE have NEON too.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/shard/record/record_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once a target
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cellfeed/format/shard/record/record_kernel_tables.h"
#include "cellfeed/format/shard/record/record_kernels.h"
#include "cellfeed/format/shard/record/record_layout.h"

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format::shard::record {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
BlockResult UnpackBlocks(const BlockRequest& request) { return unpack_blocks_scalar(request); }
#else

// At most 16 lanes, so that one table row serves every vector length.
using D32 = hn::CappedTag<std::uint32_t, kTableLanes>;
using D8 = hn::Repartition<std::uint8_t, D32>;
using DI32 = hn::RebindToSigned<D32>;
using DF32 = hn::RebindToFloat<D32>;
using V32 = hn::Vec<D32>;
constexpr std::size_t kLanes = HWY_MAX_BYTES >= 64 ? 16 : HWY_MAX_BYTES / 4;

// Takes numbers of one width apart.
class Unpacker {
 public:
  explicit Unpacker(int bits)
      : bits_(static_cast<std::size_t>(bits)),
        shift_(hn::Load(D32(), kUnpackTables.shifts[bits])),
        mask_(hn::Set(D32(), (std::uint32_t{1} << bits) - 1)) {}

  // kLanes numbers from number `first` on, a multiple of kLanes. Reads as many bytes as a vector
  // has.
  HWY_INLINE V32 At(const std::uint8_t* packed, std::size_t first) const {
    const D8 d8;
    const D32 d32;
    const std::uint8_t* from = packed + first * bits_ / 8;
#if HWY_TARGET == HWY_AVX3_DL
    const V32 lanes{_mm512_permutexvar_epi8(hn::Load(d8, kUnpackTables.bytes[bits_]).raw,
                                            hn::LoadU(d8, from).raw)};
    return hn::And(hn::Shr(lanes, shift_), mask_);
#else
    if constexpr (kLanes > 4) {
      const auto words = hn::TableLookupLanes(hn::BitCast(d32, hn::LoadU(d8, from)),
                                              hn::SetTableIndices(d32, kUnpackTables.words[bits_]));
      const auto lanes = hn::TableLookupBytes(hn::BitCast(d8, words),
                                              hn::Load(d8, kUnpackTables.block_bytes[bits_]));
      return hn::And(hn::Shr(hn::BitCast(d32, lanes), shift_), mask_);
    } else {
      const std::size_t half = (first / 4) & 1;
      const auto lanes = hn::TableLookupBytes(hn::LoadU(d8, from),
                                              hn::Load(d8, kUnpackTables.quad_bytes[bits_][half]));
      const auto shift = hn::Load(d32, kUnpackTables.shifts[bits_] + 4 * half);
      return hn::And(hn::Shr(hn::BitCast(d32, lanes), shift), mask_);
    }
#endif
  }

 private:
  std::size_t bits_;
  V32 shift_;
  V32 mask_;
};

HWY_INLINE V32 BroadcastLast(V32 v) {
  if constexpr (kLanes == 4) return hn::Broadcast<3>(v);
  alignas(64) static constexpr std::uint32_t kLast[16] = {
      kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1,
      kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1,
      kLanes - 1, kLanes - 1, kLanes - 1, kLanes - 1};
  return hn::TableLookupLanes(v, hn::SetTableIndices(D32(), kLast));
}

// Exceptions are patched this many at a time: loops that end after few different counts are
// predicted better than exact ones.
constexpr std::size_t kPatchStep = 8;
// Room behind a block's numbers for exceptions that are not there.
constexpr std::size_t kPatchRoom = kTableLanes;

// As patch_exceptions, for numbers with kPatchRoom more behind them.
HWY_INLINE bool PatchExceptions(const std::uint8_t* packed, StreamWidths widths, int entries,
                                std::uint32_t* HWY_RESTRICT numbers) {
  if (kPositionBits + widths.high_bits > kMaxTableBits)
    return patch_exceptions(packed, widths, entries, numbers);
  const DI32 d;
  const auto count = static_cast<std::size_t>(widths.exceptions);
  const Unpacker unpacker(kPositionBits + widths.high_bits);
  HWY_ALIGN std::int32_t positions[kMaxExceptions + kTableLanes];
  HWY_ALIGN std::uint32_t highs[kMaxExceptions + kTableLanes];
  alignas(64) static constexpr std::int32_t kBefore[16] = {0, 0, 1, 2,  3,  4,  5,  6,
                                                           7, 8, 9, 10, 11, 12, 13, 14};
  auto last = hn::Set(d, -1);
  auto valid = hn::Eq(last, last);
  const std::size_t padded = (count + kPatchStep - 1) / kPatchStep * kPatchStep;
  for (std::size_t i = 0; i < padded; i += kLanes) {
    const V32 fields = unpacker.At(packed, i);
    const auto live = hn::FirstN(d, count - std::min(count, i));
    const auto position = hn::BitCast(d, hn::And(fields, hn::Set(D32(), kBlockEntries - 1)));
    const auto before = hn::IfThenElse(
        hn::FirstN(d, 1), last, hn::TableLookupLanes(position, hn::SetTableIndices(d, kBefore)));
    const auto rises = hn::And(hn::Gt(position, before), hn::Lt(position, hn::Set(d, entries)));
    valid = hn::And(valid, hn::Or(rises, hn::Not(live)));
    last = hn::BitCast(d, BroadcastLast(hn::BitCast(D32(), position)));
    hn::Store(hn::IfThenElse(live, position, hn::Iota(d, kBlockEntries)), d, positions + i);
    hn::Store(hn::ShiftLeftSame(hn::Add(hn::ShiftRight<kPositionBits>(fields), hn::Set(D32(), 1)),
                                widths.base_bits),
              D32(), highs + i);
  }
  for (std::size_t i = 0; i < padded; i += kPatchStep) {
#pragma GCC unroll 8
    for (std::size_t j = i; j < i + kPatchStep; ++j) numbers[positions[j]] |= highs[j];
  }
  return hn::AllTrue(d, valid);
}

HWY_INLINE bool UnpackStream(const std::uint8_t* packed, StreamWidths widths, int entries,
                             std::uint32_t* HWY_RESTRICT numbers) {
  const Unpacker unpacker(widths.base_bits);
  if (entries == kBlockEntries) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kBlockEntries; i += kLanes) {
      hn::Store(unpacker.At(packed, i), D32(), numbers + i);
    }
  } else {
    for (std::size_t i = 0; i < static_cast<std::size_t>(entries); i += kLanes) {
      hn::Store(unpacker.At(packed, i), D32(), numbers + i);
    }
  }
  return PatchExceptions(packed + widths.base_bytes(entries), widths, entries, numbers);
}

// Sums of the lanes up to and with each lane.
HWY_INLINE V32 PrefixSum(V32 v) {
  const D32 d;
  v = hn::Add(v, hn::ShiftLeftLanes<1>(d, v));
  v = hn::Add(v, hn::ShiftLeftLanes<2>(d, v));
  if constexpr (kLanes > 4) {
    // Each block of 4 lanes adds the sum of the block before, then (16 lanes) of the two blocks
    // before.
    alignas(64) static constexpr std::uint32_t kOne[16] = {0, 0, 0, 0, 3,  3,  3,  3,
                                                           7, 7, 7, 7, 11, 11, 11, 11};
    const auto first = hn::FirstN(d, 4);
    v = hn::Add(v,
                hn::IfThenZeroElse(first, hn::TableLookupLanes(v, hn::SetTableIndices(d, kOne))));
  }
  if constexpr (kLanes > 8) {
    alignas(64) static constexpr std::uint32_t kTwo[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                           3, 3, 3, 3, 7, 7, 7, 7};
    const auto first = hn::FirstN(d, 8);
    v = hn::Add(v,
                hn::IfThenZeroElse(first, hn::TableLookupLanes(v, hn::SetTableIndices(d, kTwo))));
  }
  return v;
}

// Turns codes into the bits of values.
template <CodeOutput kOutput>
struct ValueMaker {
  explicit ValueMaker(const BlockRequest& request)
      : offset(hn::Set(D32(), static_cast<std::uint32_t>(request.offset))),
        factor(hn::Set(DF32(), request.factor)) {}

  HWY_INLINE V32 operator()(V32 codes) const {
    const V32 counts = hn::Add(codes, offset);
    if constexpr (kOutput == CodeOutput::kI32) return counts;
    auto values = hn::ConvertTo(DF32(), hn::BitCast(DI32(), counts));
    if constexpr (kOutput == CodeOutput::kF32Multiplied) values = hn::Mul(values, factor);
    if constexpr (kOutput == CodeOutput::kF32Divided) values = hn::Div(values, factor);
    return hn::BitCast(D32(), values);
  }

  V32 offset;
  hn::Vec<DF32> factor;
};

HWY_INLINE void StoreSome(V32 v, std::size_t count, std::uint32_t* to) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  hn::BlendedStore(v, hn::FirstN(D32(), count), D32(), to);
#else
  HWY_ALIGN std::uint32_t lanes[kLanes];
  hn::Store(v, D32(), lanes);
  std::memcpy(to, lanes, count * sizeof(std::uint32_t));
#endif
}

// The numbers of one block, both streams.
struct BlockNumbers {
  HWY_ALIGN std::uint32_t gaps[kBlockEntries + kPatchRoom];
  HWY_ALIGN std::uint32_t codes[kBlockEntries + kPatchRoom];
};

// Reads blocks one behind the other.
template <bool kHasCodes>
class BlockReader {
 public:
  explicit BlockReader(const BlockRequest& request) : word_(request.words), data_(request.data) {}

  HWY_INLINE bool Read(int entries, BlockNumbers& numbers) {
    bool valid = ReadStream(entries, numbers.gaps);
    if constexpr (kHasCodes) valid &= ReadStream(entries, numbers.codes);
    return valid;
  }
  const std::uint8_t* data() const { return data_; }

 private:
  HWY_INLINE bool ReadStream(int entries, std::uint32_t* HWY_RESTRICT numbers) {
    const auto widths = StreamWidths::from_word(load<std::uint16_t>(word_));
    const bool valid = UnpackStream(data_, widths, entries, numbers);
    word_ += kWordBytes;
    data_ += widths.bytes(entries);
    return valid;
  }

  const std::uint8_t* word_;
  const std::uint8_t* data_;
};

// Writes indices and values of blocks one behind the other.
template <CodeOutput kOutput>
class BlockWriter {
 public:
  static constexpr bool kHasCodes = kOutput != CodeOutput::kNone;

  explicit BlockWriter(const BlockRequest& request)
      : make_values_(request),
        indices_(reinterpret_cast<std::uint32_t*>(request.indices)),
        values_(static_cast<std::uint32_t*>(request.values)),
        n_cols_(request.n_cols),
        next_(hn::Iota(D32(), 0)) {}

  // False when an index is not below n_cols. 128 gaps of 24 bits do not reach 2^31, so that the
  // last index of a block, which is its largest, cannot wrap around.
  HWY_INLINE bool WriteFull(const BlockNumbers& numbers) {
    const D32 d;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kBlockEntries; i += kLanes) {
      hn::StoreU(NextIndices(numbers.gaps + i), d, indices_ + i);
      if constexpr (kHasCodes)
        hn::StoreU(make_values_(hn::Load(d, numbers.codes + i)), d, values_ + i);
    }
    indices_ += kBlockEntries;
    if constexpr (kHasCodes) values_ += kBlockEntries;
    return hn::GetLane(next_) <= n_cols_;
  }

  HWY_INLINE bool WriteLast(const BlockNumbers& numbers, std::size_t entries, bool may_overrun) {
    const D32 d;
    std::size_t i = 0;
    for (; i + kLanes <= entries || (i < entries && may_overrun); i += kLanes) {
      hn::StoreU(NextIndices(numbers.gaps + i), d, indices_ + i);
      if constexpr (kHasCodes)
        hn::StoreU(make_values_(hn::Load(d, numbers.codes + i)), d, values_ + i);
    }
    if (i < entries) {
      StoreSome(NextIndices(numbers.gaps + i), entries - i, indices_ + i);
      if constexpr (kHasCodes)
        StoreSome(make_values_(hn::Load(d, numbers.codes + i)), entries - i, values_ + i);
    }
    return indices_[entries - 1] < n_cols_;
  }

 private:
  HWY_INLINE V32 NextIndices(const std::uint32_t* gaps) {
    const V32 sums = PrefixSum(hn::Load(D32(), gaps));
    const V32 indices = hn::Add(sums, next_);
    next_ = hn::Add(
        next_, hn::Add(BroadcastLast(sums), hn::Set(D32(), static_cast<std::uint32_t>(kLanes))));
    return indices;
  }

  ValueMaker<kOutput> make_values_;
  std::uint32_t* indices_;
  std::uint32_t* values_;
  std::uint32_t n_cols_;
  V32 next_;  // lane i: the index it has when all gaps up to it are 0
};

// Blocks taken apart before they are written: by then their numbers have reached the nearest cache,
// from where vectors over single patches are loaded without waiting.
constexpr std::int64_t kGroupBlocks = 4;

template <CodeOutput kOutput>
BlockResult UnpackAs(const BlockRequest& request) {
  BlockReader<kOutput != CodeOutput::kNone> reader(request);
  BlockWriter<kOutput> writer(request);
  BlockNumbers blocks[kGroupBlocks];
  for (std::int64_t left = request.nnz; left > 0; left -= kGroupBlocks * kBlockEntries) {
    const std::int64_t in_group = std::min(left, kGroupBlocks * kBlockEntries);
    const auto entries_of = [&](std::int64_t b) {
      return static_cast<int>(std::min<std::int64_t>(in_group - b * kBlockEntries, kBlockEntries));
    };
    for (std::int64_t b = 0; b * kBlockEntries < in_group; ++b)
      if (!reader.Read(entries_of(b), blocks[b])) return {BlockStatus::kBadBlock, reader.data()};
    for (std::int64_t b = 0; b * kBlockEntries < in_group; ++b) {
      const int entries = entries_of(b);
      const bool inside =
          entries == kBlockEntries
              ? writer.WriteFull(blocks[b])
              : writer.WriteLast(blocks[b], static_cast<std::size_t>(entries), request.may_overrun);
      if (!inside) return {BlockStatus::kBadIndex, reader.data()};
    }
  }
  return {BlockStatus::kDone, reader.data()};
}

BlockResult UnpackBlocks(const BlockRequest& request) {
  switch (request.output) {
    case CodeOutput::kNone:
      return UnpackAs<CodeOutput::kNone>(request);
    case CodeOutput::kI32:
      return UnpackAs<CodeOutput::kI32>(request);
    case CodeOutput::kF32:
      return UnpackAs<CodeOutput::kF32>(request);
    case CodeOutput::kF32Multiplied:
      return UnpackAs<CodeOutput::kF32Multiplied>(request);
    case CodeOutput::kF32Divided:
      return UnpackAs<CodeOutput::kF32Divided>(request);
  }
  return {BlockStatus::kBadBlock, request.data};
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format::shard::record
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format::shard::record {
namespace {

HWY_EXPORT(UnpackBlocks);

// Proves from the widths alone that all blocks lie in data..end and that no number has more than
// kMaxFastBits.
BlockStatus check_widths(const BlockRequest& request) {
  const int streams = request.output == CodeOutput::kNone ? 1 : 2;
  const std::uint8_t* word = request.words;
  std::uint64_t bytes = 0;
  bool valid = true;
  int bits = 0;
  for (std::int64_t left = request.nnz; left > 0; left -= kBlockEntries) {
    const int entries = static_cast<int>(std::min<std::int64_t>(left, kBlockEntries));
    for (int stream = 0; stream < streams; ++stream, word += kWordBytes) {
      const auto widths = StreamWidths::from_word(load<std::uint16_t>(word));
      valid &= widths.is_valid(entries);
      bits = std::max(bits, widths.max_bits());
      bytes += widths.bytes(entries);
    }
  }
  if (!valid) return BlockStatus::kBadBlock;
  if (bytes > static_cast<std::uint64_t>(request.end - request.data))
    return BlockStatus::kTruncated;
  return bits > kMaxFastBits ? BlockStatus::kTooWide : BlockStatus::kDone;
}

}  // namespace

BlockResult unpack_blocks(const BlockRequest& request) {
  const BlockStatus status = check_widths(request);
  if (status != BlockStatus::kDone) return {status, request.data};
  return HWY_DYNAMIC_DISPATCH(UnpackBlocks)(request);
}

}  // namespace cellfeed::format::shard::record
#endif
