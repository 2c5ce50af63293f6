// RecordParts: parsing with every length checked.
#include "cellfeed/format/shard/record/record_parts.h"

namespace cellfeed::format::shard::record {
namespace {

// Takes `count` bytes off the front of what is left of a record.
const std::uint8_t* take(std::span<const std::uint8_t>& rest, std::uint64_t count,
                         const char* what) {
  if (count > rest.size()) {
    throw_corrupt("ends inside its {} ({} bytes left, {} needed)", what, rest.size(), count);
  }
  const std::uint8_t* taken = rest.data();
  rest = rest.subspan(count);
  return taken;
}

void parse_header(const std::uint8_t* header, std::int64_t nnz, RecordParts& parts) {
  const int kind = header[0] & kKindMask;
  const bool zero_based = (header[0] & kZeroBased) != 0;
  const bool has_offset = kind < static_cast<int>(ValueKind::kDictionary);
  if (kind > static_cast<int>(ValueKind::kRaw) || (header[0] & ~(kKindMask | kZeroBased)) != 0 ||
      (zero_based && !has_offset)) {
    throw_corrupt("starts with the unknown kind {:#04x}", header[0]);
  }
  const auto entries = load<std::uint16_t>(header + 1);
  if (entries != (nnz & 0xffff))
    throw_corrupt("holds {} entries modulo 65536, not {}", entries, nnz);
  parts.kind = static_cast<ValueKind>(kind);
  parts.offset = has_offset && !zero_based ? 1 : 0;
}

}  // namespace

RecordParts parse_record(std::span<const std::uint8_t> bytes, std::int64_t nnz, DType stored) {
  RecordParts parts;
  std::span<const std::uint8_t> rest = bytes;
  parse_header(take(rest, kHeaderBytes, "header"), nnz, parts);
  const std::uint64_t value_bytes = dtype_bytes(stored);
  if (parts.kind == ValueKind::kMultiplied || parts.kind == ValueKind::kDivided) {
    if (!is_float(stored))
      throw_corrupt("has scaled counts for a matrix of {}", dtype_name(stored));
    parts.factor = take(rest, value_bytes, "factor");
  } else if (parts.kind == ValueKind::kDictionary) {
    parts.n_entries = load<std::uint32_t>(take(rest, sizeof(std::uint32_t), "dictionary size"));
    parts.entries = take(rest, parts.n_entries * value_bytes, "dictionary");
  }
  const auto n_blocks = static_cast<std::uint64_t>((nnz + kBlockEntries - 1) / kBlockEntries);
  const std::uint64_t streams = parts.kind == ValueKind::kRaw ? 1 : 2;
  parts.words = take(rest, n_blocks * streams * kWordBytes, "block widths");
  parts.blocks = rest.data();
  parts.blocks_end = rest.data() + rest.size();
  if (parts.kind == ValueKind::kRaw) {
    const std::uint64_t raw_bytes = static_cast<std::uint64_t>(nnz) * value_bytes;
    if (raw_bytes > rest.size())
      throw_corrupt("ends inside its values ({} bytes left)", rest.size());
    parts.blocks_end -= raw_bytes;
    parts.raw = parts.blocks_end;
  }
  return parts;
}

}  // namespace cellfeed::format::shard::record
