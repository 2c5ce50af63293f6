// Encodes records: how the values are stored, then both streams block by block.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/record/record.h"
#include "cellfeed/format/shard/record/record_layout.h"
#include "cellfeed/format/shard/record/record_pack.h"
#include "cellfeed/format/shard/record/record_value_kind.h"

namespace cellfeed::format::shard {
namespace record {
namespace {

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

// Memory of a thread that grows to what its longest row takes, without being cleared.
std::uint8_t* room_for(std::size_t bytes) {
  thread_local std::unique_ptr<std::uint8_t[]> room;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    room = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
    size = bytes;
  }
  return room.get();
}

}  // namespace
}  // namespace record

void encode_record(std::span<const std::int32_t> indices, const void* values, DType dtype,
                   std::vector<std::uint8_t>& out) {
  using namespace record;
  const std::size_t nnz = indices.size();
  // Kept between rows: a row's worth of memory a thread.
  thread_local ValueCoding coding;
  choose_value_coding(values, nnz, dtype, coding);
  const std::size_t n_blocks = (nnz + kBlockEntries - 1) / kBlockEntries;
  const std::size_t streams = coding.kind == ValueKind::kRaw ? 1 : 2;
  const std::size_t word_bytes = n_blocks * streams * kWordBytes;
  const std::size_t raw_bytes = coding.kind == ValueKind::kRaw ? nnz * dtype_bytes(dtype) : 0;
  std::uint8_t* record =
      room_for(record::kHeaderBytes + coding.prefix.size() + word_bytes +
               n_blocks * streams * kMaxStreamBytes + raw_bytes + kPackRoomBytes);
  std::uint8_t* words = put_header(record, coding, nnz);
  std::uint8_t* end =
      pack_blocks(indices, coding.kind == ValueKind::kRaw ? nullptr : coding.codes.data(), words,
                  words + word_bytes);
  if (end == nullptr)
    throw_invalid("column indices of a packed row must be sorted, unique and not negative");
  if (nnz > 0 && indices.back() == std::numeric_limits<std::int32_t>::max())
    throw_invalid("a column index of 2^31 - 1 is too large");
  end = put_bytes(end, values, raw_bytes);
  out.insert(out.end(), record, end);
}

}  // namespace cellfeed::format::shard
