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
  std::int32_t previous = -1;
  bool rising = true;
  for (const std::int32_t index : indices) {
    rising &= index > previous;
    previous = index;
  }
  if (!rising)
    throw_invalid("column indices of a packed row must be sorted, unique and not negative");
  if (previous == std::numeric_limits<std::int32_t>::max())
    throw_invalid("a column index of 2^31 - 1 is too large");
}

std::uint8_t* put_bytes(std::uint8_t* to, const void* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
  return to + size;
}

std::uint8_t* put_word(std::uint8_t* to, StreamWidths widths) {
  const std::uint16_t word = widths.word();
  return put_bytes(to, &word, sizeof(word));
}

std::uint8_t* put_header(std::uint8_t* to, const ValueCoding& coding, std::size_t nnz) {
  *to++ = static_cast<std::uint8_t>(static_cast<std::uint8_t>(coding.kind) |
                                    (coding.zero_based ? kZeroBased : 0));
  const auto low_nnz = static_cast<std::uint16_t>(nnz);
  to = put_bytes(to, &low_nnz, sizeof(low_nnz));
  return put_bytes(to, coding.prefix.data(), coding.prefix.size());
}

// Both streams of all blocks; words has room for their widths.
std::uint8_t* put_blocks(std::uint8_t* to, std::uint8_t* words,
                         std::span<const std::int32_t> indices,
                         std::span<const std::uint32_t> codes) {
  std::uint32_t gaps[kBlockEntries];
  std::int32_t previous = -1;
  for (std::size_t first = 0; first < indices.size(); first += kBlockEntries) {
    const int entries =
        static_cast<int>(std::min<std::size_t>(kBlockEntries, indices.size() - first));
    const std::int32_t* block = indices.data() + first;
    gaps[0] = static_cast<std::uint32_t>(block[0] - previous - 1);
    for (int i = 1; i < entries; ++i)
      gaps[i] = static_cast<std::uint32_t>(block[i] - block[i - 1] - 1);
    previous = block[entries - 1];
    const StreamWidths gap_widths = choose_widths(gaps, entries);
    words = put_word(words, gap_widths);
    to = pack_stream(gaps, entries, gap_widths, to);
    if (codes.empty()) continue;
    const StreamWidths code_widths = choose_widths(codes.data() + first, entries);
    words = put_word(words, code_widths);
    to = pack_stream(codes.data() + first, entries, code_widths, to);
  }
  return to;
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
  constexpr std::size_t kWriteRoom = 8;
  out.resize(start + kHeaderBytes + coding.prefix.size() + word_bytes +
             n_blocks * streams * kMaxStreamBytes + raw_bytes + kWriteRoom);
  std::uint8_t* words = put_header(out.data() + start, coding, nnz);
  std::uint8_t* end = put_blocks(words + word_bytes, words, indices, coding.codes);
  end = put_bytes(end, values, raw_bytes);
  out.resize(static_cast<std::size_t>(end - out.data()));
}

}  // namespace cellfeed::format::shard
