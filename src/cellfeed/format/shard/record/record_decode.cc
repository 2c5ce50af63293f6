// Decodes records: blocks by kernels, then those values that need more than a kernel.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/format/shard/record/record.h"
#include "cellfeed/format/shard/record/record_kernels.h"
#include "cellfeed/format/shard/record/record_parts.h"

namespace cellfeed::format::shard {
namespace record {
namespace {

constexpr std::size_t kCodeBytes = sizeof(std::int32_t);

void check_blocks(const BlockRequest& request, const BlockResult& result) {
  switch (result.status) {
    case BlockStatus::kDone:
      break;
    case BlockStatus::kTruncated:
      throw_corrupt("ends inside a block");
    case BlockStatus::kBadIndex:
      throw_corrupt("has a column index that is not below {}", request.n_cols);
    case BlockStatus::kBadBlock:
    case BlockStatus::kTooWide:
      throw_corrupt("has a block with impossible widths or exceptions");
  }
  if (result.end != request.end) throw_corrupt("has {} bytes left over", request.end - result.end);
}

void check_fit(const Fit& fit, Casting casting, DType stored, DType out) {
  if (fit.allows(may_round(casting, stored, out))) return;
  throw_error(ErrorKind::kPrecision, {}, "a stored {} value {}", dtype_name(stored),
              misfit_text(casting, stored, out));
}

// Turns codes into out[0..nnz). codes may be the upper end of out: value i never lies over a code
// behind i.
template <typename To, typename ValueOf>
void expand_codes(const std::uint8_t* codes, std::int64_t nnz, To* out, Fit* fit,
                  ValueOf value_of) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(out);
  for (std::int64_t i = 0; i < nnz; ++i) {
    const auto code = load<std::int32_t>(codes + i * kCodeBytes);
    const To value = convert_value<To>(value_of(code), fit);
    std::memcpy(bytes + i * sizeof(To), &value, sizeof(To));
  }
}

template <typename To, typename Stored>
void expand_scaled(const RecordParts& parts, const std::uint8_t* codes, std::int64_t nnz, To* out,
                   Fit* fit) {
  const auto factor = load<Stored>(parts.factor);
  const auto count = [&](std::int32_t code) {
    return static_cast<Stored>(std::int64_t{code} + parts.offset);
  };
  if (parts.kind == ValueKind::kDivided) {
    expand_codes(codes, nnz, out, fit, [&](std::int32_t code) { return count(code) / factor; });
  } else {
    expand_codes(codes, nnz, out, fit, [&](std::int32_t code) { return count(code) * factor; });
  }
}

template <typename To, typename Stored>
void expand_dictionary(const RecordParts& parts, const std::uint8_t* codes, std::int64_t nnz,
                       To* out, Fit* fit) {
  bool known = true;
  expand_codes(codes, nnz, out, fit, [&](std::int32_t code) {
    const auto entry = static_cast<std::uint32_t>(code);
    if (entry < parts.n_entries) return load<Stored>(parts.entries + entry * sizeof(Stored));
    known = false;
    return Stored{};
  });
  if (!known)
    throw_corrupt("has a code that is not below its dictionary's {} entries", parts.n_entries);
}

template <typename To, typename Stored>
void expand_values(const RecordParts& parts, const std::uint8_t* codes, std::int64_t nnz, To* out,
                   Fit* fit) {
  switch (parts.kind) {
    case ValueKind::kCounts:
      expand_codes(codes, nnz, out, fit,
                   [&](std::int32_t code) { return std::int64_t{code} + parts.offset; });
      break;
    case ValueKind::kMultiplied:
    case ValueKind::kDivided:
      if constexpr (std::is_floating_point_v<Stored>)
        expand_scaled<To, Stored>(parts, codes, nnz, out, fit);
      break;
    case ValueKind::kDictionary:
      expand_dictionary<To, Stored>(parts, codes, nnz, out, fit);
      break;
    case ValueKind::kRaw:
      for (std::int64_t i = 0; i < nnz; ++i) {
        out[i] = convert_value<To>(load<Stored>(parts.raw + i * sizeof(Stored)), fit);
      }
      break;
  }
}

// What a kernel can write at once; kNone where values take a second pass.
template <typename To>
CodeOutput direct_output(const RecordParts& parts, DType stored) {
  if constexpr (std::is_same_v<To, float>) {
    if (parts.kind == ValueKind::kCounts) return CodeOutput::kF32;
    if (parts.kind == ValueKind::kMultiplied && stored == DType::kF32)
      return CodeOutput::kF32Multiplied;
    if (parts.kind == ValueKind::kDivided && stored == DType::kF32) return CodeOutput::kF32Divided;
  }
  if constexpr (std::is_same_v<To, std::int32_t>) {
    if (parts.kind == ValueKind::kCounts) return CodeOutput::kI32;
  }
  return CodeOutput::kNone;
}

template <typename To>
bool decode_directly(const RecordParts& parts, DType stored, BlockRequest request, To* out) {
  request.output = direct_output<To>(parts, stored);
  if (request.output == CodeOutput::kNone) return false;
  request.offset = parts.offset;
  request.values = out;
  if (parts.factor != nullptr) request.factor = load<float>(parts.factor);
  const BlockResult result = unpack_blocks(request);
  if (result.status == BlockStatus::kTooWide) return false;
  check_blocks(request, result);
  return true;
}

template <typename To>
void decode_as(const RecordParts& parts, DType stored, Casting casting, BlockRequest request,
               To* out) {
  if (decode_directly(parts, stored, request, out)) return;
  std::uint8_t* codes =
      reinterpret_cast<std::uint8_t*>(out) + request.nnz * (sizeof(To) - kCodeBytes);
  request.values = codes;
  request.output = parts.kind == ValueKind::kRaw ? CodeOutput::kNone : CodeOutput::kI32;
  BlockResult result = unpack_blocks(request);
  if (result.status == BlockStatus::kTooWide) result = unpack_blocks_scalar(request);
  check_blocks(request, result);
  Fit fit;
  // A stored bool is read as the byte it is: damaged files hold others than 0 and 1.
  dispatch_dtype(stored == DType::kBool ? DType::kU8 : stored, [&](auto tag) {
    expand_values<To, decltype(tag)>(parts, codes, request.nnz, out, &fit);
  });
  check_fit(fit, casting, stored, dtype_of<To>());
}

}  // namespace
}  // namespace record

void decode_record(std::span<const std::uint8_t> bytes, std::int64_t nnz, std::int64_t n_cols,
                   DType stored, DType out, Casting casting, std::int32_t* indices, void* values,
                   OverrunRoom room) {
  // A row has no more entries than columns, and every entry is at least in a block of some bytes.
  if (nnz < 0 || nnz > n_cols)
    record::throw_corrupt("cannot hold {} entries of {} columns", nnz, n_cols);
  const record::RecordParts parts = record::parse_record(bytes, nnz, stored);
  record::BlockRequest request;
  request.words = parts.words;
  request.data = parts.blocks;
  request.end = parts.blocks_end;
  request.nnz = nnz;
  request.n_cols = static_cast<std::uint32_t>(
      std::min<std::int64_t>(n_cols, std::numeric_limits<std::int32_t>::max()));
  request.may_overrun = room == OverrunRoom::k64Bytes;
  request.indices = indices;
  switch (out) {
    case DType::kF32:
      return record::decode_as(parts, stored, casting, request, static_cast<float*>(values));
    case DType::kF64:
      return record::decode_as(parts, stored, casting, request, static_cast<double*>(values));
    case DType::kI32:
      return record::decode_as(parts, stored, casting, request, static_cast<std::int32_t*>(values));
    case DType::kI64:
      return record::decode_as(parts, stored, casting, request, static_cast<std::int64_t*>(values));
    default:
      throw_invalid("values decode to float32, float64, int32 or int64, not {}", dtype_name(out));
  }
}

void decode_records(std::span<const RecordView> records, std::int64_t n_cols, DType stored,
                    DType out, Casting casting, std::int32_t* indices, void* values,
                    OverrunRoom room) {
  // Far enough that memory answers while the rows between are decoded.
  constexpr std::size_t kAhead = 4;
  for (std::size_t i = 0; i < std::min(kAhead, records.size()); ++i) {
    prefetch_record(records[i].bytes, records[i].length);
  }
  auto* next_value = static_cast<std::uint8_t*>(values);
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i + kAhead < records.size())
      prefetch_record(records[i + kAhead].bytes, records[i + kAhead].length);
    // Rows lie in order, so that a row may write over the place of the next one.
    const bool roomy = room == OverrunRoom::k64Bytes;
    decode_record({records[i].bytes, records[i].length}, records[i].nnz, n_cols, stored, out,
                  casting, indices, next_value, roomy ? OverrunRoom::k64Bytes : OverrunRoom::kNone);
    indices += records[i].nnz;
    next_value += records[i].nnz * static_cast<std::int64_t>(dtype_bytes(out));
  }
}

}  // namespace cellfeed::format::shard
