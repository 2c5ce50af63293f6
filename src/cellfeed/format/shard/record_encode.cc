// Encodes records: how the values are stored, then both streams block by block.
#include <algorithm>
#include <cstring>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/record.h"
#include "cellfeed/format/shard/record_layout.h"
#include "cellfeed/format/shard/record_pack.h"
#include "cellfeed/format/shard/record_value_kind.h"

namespace cellfeed::format::shard {
namespace record {
namespace {

void check_indices(std::span<const std::int32_t> indices) {
  if (indices.empty()) return;
  bool rising = indices.front() >= 0;
  for (std::size_t i = 1; i < indices.size(); ++i) rising &= indices[i] > indices[i - 1];
  if (!rising)
    throw_invalid("column indices of a packed row must be sorted, unique and not negative");
  if (indices.back() == std::numeric_limits<std::int32_t>::max())
    throw_invalid("a column index of 2^31 - 1 is too large");
}

std::uint8_t* put_bytes(std::uint8_t* to, const void* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
  return to + size;
}

std::uint8_t* put_header(std::uint8_t* to, const ValueCoding& coding, std::size_t nnz) {
  *to++ = static_cast<std::uint8_t>(static_cast<std::uint8_t>(coding.kind) |
                                    (coding.zero_based ? kZeroBased : 0));
  const auto low_nnz = static_cast<std::uint16_t>(nnz);
  to = put_bytes(to, &low_nnz, sizeof(low_nnz));
  return put_bytes(to, coding.prefix.data(), coding.prefix.size());
}

// The bytes of a record under construction: widths in front, blocks behind them.
struct Cursor {
  std::uint8_t* word = nullptr;
  std::uint8_t* block = nullptr;

  // numbers has kBlockEntries elements, zero from `entries` on.
  void put_stream(const std::uint32_t* numbers, int entries) {
    const StreamPlan plan = plan_stream(numbers, entries);
    const std::uint16_t widths = plan.widths.word();
    word = put_bytes(word, &widths, sizeof(widths));
    block = pack_stream(numbers, entries, plan, block);
  }
};

// Both streams of all blocks; codes are empty or one an index.
std::uint8_t* put_blocks(Cursor cursor, std::span<const std::int32_t> indices,
                         std::span<const std::uint32_t> codes) {
  std::uint32_t numbers[kBlockEntries];
  std::int32_t previous = -1;
  for (std::size_t first = 0; first < indices.size(); first += kBlockEntries) {
    const auto entries = std::min<std::size_t>(kBlockEntries, indices.size() - first);
    if (entries < kBlockEntries) std::fill(numbers, numbers + kBlockEntries, 0);
    const std::int32_t* block = indices.data() + first;
    numbers[0] = static_cast<std::uint32_t>(block[0] - previous - 1);
    for (std::size_t i = 1; i < entries; ++i)
      numbers[i] = static_cast<std::uint32_t>(block[i] - block[i - 1] - 1);
    previous = block[entries - 1];
    cursor.put_stream(numbers, static_cast<int>(entries));
    if (codes.empty()) continue;
    const std::uint32_t* block_codes = codes.data() + first;
    if (entries < kBlockEntries) block_codes = std::copy_n(block_codes, entries, numbers) - entries;
    cursor.put_stream(block_codes, static_cast<int>(entries));
  }
  return cursor.block;
}

}  // namespace
}  // namespace record

void encode_record(std::span<const std::int32_t> indices, const void* values, DType dtype,
                   std::vector<std::uint8_t>& out) {
  using namespace record;
  check_indices(indices);
  const std::size_t nnz = indices.size();
  // Kept between rows: a row's worth of memory a thread.
  thread_local ValueCoding coding;
  choose_value_coding(values, nnz, dtype, coding);
  const std::size_t n_blocks = (nnz + kBlockEntries - 1) / kBlockEntries;
  const std::size_t streams = coding.kind == ValueKind::kRaw ? 1 : 2;
  const std::size_t word_bytes = n_blocks * streams * kWordBytes;
  const std::size_t raw_bytes = coding.kind == ValueKind::kRaw ? nnz * dtype_bytes(dtype) : 0;
  const std::size_t start = out.size();
  out.resize(start + kHeaderBytes + coding.prefix.size() + word_bytes +
             n_blocks * streams * kMaxStreamBytes + raw_bytes + kPackRoomBytes);
  std::uint8_t* words = put_header(out.data() + start, coding, nnz);
  std::uint8_t* end = put_blocks({words, words + word_bytes}, indices, coding.codes);
  end = put_bytes(end, values, raw_bytes);
  out.resize(static_cast<std::size_t>(end - out.data()));
}

}  // namespace cellfeed::format::shard
