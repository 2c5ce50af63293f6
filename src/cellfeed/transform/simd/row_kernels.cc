#include "cellfeed/transform/simd/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/transform/simd/row_kernels.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cellfeed/transform/simd/front_lanes-inl.h"
#include "cellfeed/transform/simd/value_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A mask of at most 16 lanes, so that it fits an integer on every target.
using Indices = hn::CappedTag<std::int32_t, 16>;

// Bit j: indices[j] has a place. Single loads beat a gather on the machines at hand, and need no
// wide vectors.
HWY_INLINE std::uint32_t place_bits(const std::int32_t* HWY_RESTRICT indices,
                                    const std::int32_t* HWY_RESTRICT map, std::size_t lanes) {
  std::uint32_t dropped = 0;
  const auto sign = [&](std::size_t j) {
    return static_cast<std::uint32_t>(map[indices[j]]) >> 31;
  };
  if (lanes % 4 != 0) {
    for (std::size_t j = 0; j < lanes; ++j) dropped |= sign(j) << j;
  } else {
    for (std::size_t j = 0; j < lanes; j += 4)
      dropped |= (sign(j) | sign(j + 1) << 1 | sign(j + 2) << 2 | sign(j + 3) << 3) << j;
  }
  return ~dropped & ((1u << lanes) - 1);
}

// The same from marks, where all columns lie within two vectors of words; else false.
HWY_INLINE bool find_marks(const std::int32_t* HWY_RESTRICT indices,
                           const std::uint32_t* HWY_RESTRICT marks, std::size_t lanes,
                           std::uint32_t* bits) {
  const hn::Repartition<std::uint32_t, Indices> d;
  const auto first = static_cast<std::uint32_t>(indices[0]) / 32;
  const auto words = static_cast<std::uint32_t>(lanes);
  if (static_cast<std::uint32_t>(indices[lanes - 1]) / 32 - first >= 2 * words) return false;
  const auto columns = hn::BitCast(d, hn::LoadU(Indices(), indices));
  const auto word = hn::Sub(hn::ShiftRight<5>(columns), hn::Set(d, first));
  const auto lane = hn::IndicesFromVec(d, hn::And(word, hn::Set(d, words - 1)));
  const auto low = hn::TableLookupLanes(hn::LoadU(d, marks + first), lane);
  const auto high = hn::TableLookupLanes(hn::LoadU(d, marks + first + words), lane);
  const auto marked = hn::IfThenElse(hn::Lt(word, hn::Set(d, words)), low, high);
  const auto bit = hn::Shl(hn::Set(d, 1), hn::And(columns, hn::Set(d, 31)));
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, hn::TestBit(marked, bit), bytes);
  *bits = static_cast<std::uint32_t>(bytes[0] | bytes[1] << 8);
  return true;
}

// Bit j becomes bits 2j and 2j + 1; of the low 8.
HWY_INLINE std::uint32_t twice_each(std::uint32_t bits) {
  bits = (bits | bits << 4) & 0x0f0f;
  bits = (bits | bits << 2) & 0x3333;
  bits = (bits | bits << 1) & 0x5555;
  return bits | bits << 1;
}

// The marked lanes of one vector of values from `from` go to the front of `to`; there must be room
// for the whole vector. Lanes of 64 bits move as pairs of 32.
template <class D>
HWY_INLINE void compress(D d, const hn::TFromD<D>* from, std::uint32_t bits, hn::TFromD<D>* to) {
  const auto values = hn::LoadU(d, from);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    hn::StoreU(bring_to_front(d, values, bits), d, to);
  } else if constexpr (hn::MaxLanes(D()) == 1) {
    hn::StoreU(values, d, to);
  } else {
    const hn::Repartition<std::uint32_t, D> pairs;
    const auto front = bring_to_front(pairs, hn::BitCast(pairs, values), twice_each(bits));
    hn::StoreU(hn::BitCast(d, front), d, to);
  }
}

// Whole vectors are stored at the front: they end where those just loaded end, so nothing unread is
// lost.
template <typename T>
std::size_t compress_row(const std::int32_t* indices, const T* values, std::size_t n,
                         const KeptColumns& columns, std::int32_t* to_indices, T* to_values) {
  const std::int32_t* map = columns.places;
  const Indices d;
  const hn::CappedTag<T, 64 / sizeof(T)> dv;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t value_lanes = hn::Lanes(dv);
  std::size_t kept = 0;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    std::uint32_t bits;
    if (lanes < 4 || columns.marks == nullptr ||
        !find_marks(indices + i, columns.marks, lanes, &bits))
      bits = place_bits(indices + i, map, lanes);
    compress(d, indices + i, bits, to_indices + kept);
    for (std::size_t j = 0; j < lanes; j += value_lanes) {
      const std::uint32_t part = bits >> j & ((1u << value_lanes) - 1);
      compress(dv, values + i + j, part, to_values + kept);
      kept += hwy::PopCount(part);
    }
  }
  for (; i < n; ++i) {
    const std::int32_t column = indices[i];
    to_values[kept] = values[i];
    to_indices[kept] = column;
    kept += map[column] >= 0;
  }
  for (std::size_t k = 0; k < kept; ++k) to_indices[k] = map[to_indices[k]];
  return kept;
}

std::size_t compress_row_4(const std::int32_t* indices, const void* values, std::size_t n,
                           const KeptColumns& columns, std::int32_t* to_indices, void* to_values) {
  return compress_row(indices, static_cast<const std::uint32_t*>(values), n, columns, to_indices,
                      static_cast<std::uint32_t*>(to_values));
}
std::size_t compress_row_8(const std::int32_t* indices, const void* values, std::size_t n,
                           const KeptColumns& columns, std::int32_t* to_indices, void* to_values) {
  return compress_row(indices, static_cast<const std::uint64_t*>(values), n, columns, to_indices,
                      static_cast<std::uint64_t*>(to_values));
}

void stream_words(const std::uint32_t* HWY_RESTRICT from, std::size_t n,
                  std::uint32_t* HWY_RESTRICT to) {
  constexpr std::size_t kLine = 16;
  const hn::CappedTag<std::uint32_t, kLine> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(to) % 64 / 4;
  std::size_t i = std::min(n, (kLine - past_line) % kLine);
  std::memcpy(to, from, i * 4);
  for (; n - i >= kLine; i += kLine)
    for (std::size_t j = i; j < i + kLine; j += lanes)
      hn::Stream(hn::LoadU(d, from + j), d, to + j);
  std::memcpy(to + i, from + i, (n - i) * 4);
}

void publish_streams() { hwy::FlushStream(); }

// A row is built block by block in the nearest cache and streamed out of it by whole lines.
template <typename T>
void stream_row(const std::int32_t* HWY_RESTRICT indices, const T* HWY_RESTRICT values,
                std::size_t n, T* HWY_RESTRICT out, std::size_t n_cols) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  constexpr std::size_t kBlock = 4096 / sizeof(T);
  const hn::CappedTag<T, kLine> d;
  const std::size_t lanes = hn::Lanes(d);
  alignas(64) static thread_local T block[kBlock];  // zero between calls
  std::size_t k = 0;
  const auto fill = [&](T* to, std::size_t begin, std::size_t end) {
    for (; k < n && static_cast<std::size_t>(indices[k]) < end; ++k)
      to[indices[k] - begin] = values[k];
  };
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(out) % 64 / sizeof(T);
  std::size_t begin = std::min(n_cols, (kLine - past_line) % kLine);
  std::memset(out, 0, begin * sizeof(T));
  fill(out, 0, begin);
  while (n_cols - begin >= kLine) {
    const std::size_t size = std::min(kBlock, (n_cols - begin) / kLine * kLine);
    const std::size_t first = k;
    fill(block, begin, begin + size);
    for (std::size_t j = 0; j < size; j += lanes)
      hn::Stream(hn::Load(d, block + j), d, out + begin + j);
    for (std::size_t q = first; q < k; ++q) block[indices[q] - begin] = 0;
    begin += size;
  }
  std::memset(out + begin, 0, (n_cols - begin) * sizeof(T));
  fill(out + begin, begin, n_cols);
  hwy::FlushStream();
}

// A row whose entries come in any order is built as a whole, and streamed out of the second cache.
template <typename T>
void stream_unordered(const std::int32_t* HWY_RESTRICT indices, const T* HWY_RESTRICT values,
                      std::size_t n, T* HWY_RESTRICT out, std::size_t n_cols) {
  static thread_local std::vector<T> row;  // zero between calls
  if (row.size() < n_cols) row.resize(n_cols);
  T* HWY_RESTRICT whole = row.data();
  for (std::size_t k = 0; k < n; ++k) whole[indices[k]] = values[k];
  stream_words(reinterpret_cast<const std::uint32_t*>(whole), n_cols * sizeof(T) / 4,
               reinterpret_cast<std::uint32_t*>(out));
  for (std::size_t k = 0; k < n; ++k) whole[indices[k]] = 0;
  hwy::FlushStream();
}

void stream_row_4(const std::int32_t* indices, const void* values, std::size_t n, void* out,
                  std::size_t n_cols) {
  stream_row(indices, static_cast<const std::uint32_t*>(values), n,
             static_cast<std::uint32_t*>(out), n_cols);
}
void stream_row_8(const std::int32_t* indices, const void* values, std::size_t n, void* out,
                  std::size_t n_cols) {
  stream_row(indices, static_cast<const std::uint64_t*>(values), n,
             static_cast<std::uint64_t*>(out), n_cols);
}
void stream_unordered_4(const std::int32_t* indices, const void* values, std::size_t n, void* out,
                        std::size_t n_cols) {
  stream_unordered(indices, static_cast<const std::uint32_t*>(values), n,
                   static_cast<std::uint32_t*>(out), n_cols);
}
void stream_unordered_8(const std::int32_t* indices, const void* values, std::size_t n, void* out,
                        std::size_t n_cols) {
  stream_unordered(indices, static_cast<const std::uint64_t*>(values), n,
                   static_cast<std::uint64_t*>(out), n_cols);
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::transform {
namespace {

HWY_EXPORT(compress_row_4);
HWY_EXPORT(compress_row_8);
HWY_EXPORT(stream_row_4);
HWY_EXPORT(stream_row_8);
HWY_EXPORT(stream_unordered_4);
HWY_EXPORT(stream_unordered_8);
HWY_EXPORT(stream_words);
HWY_EXPORT(publish_streams);

// The C library zeroes as fast as the machine can; entries are few.
template <typename T>
void zero_and_set(std::span<const std::int32_t> indices, const T* values, T* out,
                  std::size_t n_cols) {
  std::memset(out, 0, n_cols * sizeof(T));
  for (std::size_t k = 0; k < indices.size(); ++k) out[indices[k]] = values[k];
}

}  // namespace

std::size_t keep_mapped(const std::int32_t* indices, const void* values, std::size_t value_bytes,
                        std::size_t n, const KeptColumns& columns, std::int32_t* to_indices,
                        void* to_values) {
  require_4_or_8(value_bytes);
  const auto compress_row = value_bytes == 4 ? HWY_DYNAMIC_DISPATCH(compress_row_4)
                                             : HWY_DYNAMIC_DISPATCH(compress_row_8);
  return compress_row(indices, values, n, columns, to_indices, to_values);
}

RowStores choose_row_stores(std::int64_t n_rows, std::int64_t row_bytes) {
  constexpr std::int64_t kWideRow = std::int64_t{32} << 10;
  constexpr std::int64_t kLastCache = std::int64_t{32} << 20;
  const bool is_worth_it = row_bytes >= kWideRow && n_rows > kLastCache / row_bytes;
  return is_worth_it ? RowStores::kStreaming : RowStores::kCached;
}

void scatter_row(std::span<const std::int32_t> indices, const void* values, std::size_t value_bytes,
                 void* out, std::size_t n_cols, RowStores stores, EntryOrder order) {
  require_4_or_8(value_bytes);
  if (n_cols == 0) return;
  if (stores == RowStores::kStreaming) {
    const auto stream = order == EntryOrder::kIncreasing
                            ? (value_bytes == 4 ? HWY_DYNAMIC_DISPATCH(stream_row_4)
                                                : HWY_DYNAMIC_DISPATCH(stream_row_8))
                            : (value_bytes == 4 ? HWY_DYNAMIC_DISPATCH(stream_unordered_4)
                                                : HWY_DYNAMIC_DISPATCH(stream_unordered_8));
    return stream(indices.data(), values, indices.size(), out, n_cols);
  }
  if (value_bytes == 4)
    return zero_and_set(indices, static_cast<const std::uint32_t*>(values),
                        static_cast<std::uint32_t*>(out), n_cols);
  zero_and_set(indices, static_cast<const std::uint64_t*>(values), static_cast<std::uint64_t*>(out),
               n_cols);
}

void copy_past_caches(const void* from, std::size_t n_bytes, void* to) {
  if (n_bytes == 0) return;
  HWY_DYNAMIC_DISPATCH(stream_words)
  (static_cast<const std::uint32_t*>(from), n_bytes / 4, static_cast<std::uint32_t*>(to));
}

void publish_copies() { HWY_DYNAMIC_DISPATCH(publish_streams)(); }

}  // namespace cellfeed::transform
#endif
