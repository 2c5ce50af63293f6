// The bytes of a .cells file (docs/format/shard.md, "Cells file"): header, segments of records,
// padding, row table, segment table. Pure functions of bytes; every number from disk is checked
// before it is believed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::format::shard {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

inline constexpr char kCellsMagic[8] = {'C', 'E', 'L', 'L', 'F', 'E', 'E', 'D'};
inline constexpr std::uint32_t kCellsVersion = 2;
inline constexpr std::int64_t kHeaderBytes = 256;     // checksum of the first 248 in the last 8
inline constexpr std::int64_t kRecordsOffset = 4096;  // zeros between the header and here
inline constexpr std::int64_t kTableAlignment = 64;   // of the row table
inline constexpr std::int64_t kSegmentEntryBytes = 40;
inline constexpr std::uint32_t kFlagMeanGeneOrder = 1;

// A row table entry: offset of the record from kRecordsOffset in the high 40 bits, non-zeros in the
// low 24. The entry behind the last one holds the end of the last record and no non-zeros.
inline constexpr int kNnzBits = 24;
inline constexpr std::int64_t kMaxRowNnz = (std::int64_t{1} << kNnzBits) - 1;
inline constexpr std::int64_t kMaxRecordsBytes = (std::int64_t{1} << 40) - 1;
constexpr std::uint64_t pack_row(std::int64_t offset, std::int64_t nnz) {
  return static_cast<std::uint64_t>(offset) << kNnzBits | static_cast<std::uint64_t>(nnz);
}
constexpr std::int64_t row_offset(std::uint64_t entry) {
  return static_cast<std::int64_t>(entry >> kNnzBits);
}
constexpr std::int64_t row_nnz(std::uint64_t entry) {
  return static_cast<std::int64_t>(entry & static_cast<std::uint64_t>(kMaxRowNnz));
}

struct SegmentEntry {
  std::uint64_t offset = 0;  // from kRecordsOffset
  std::uint64_t length = 0;
  std::uint64_t first_row = 0;
  std::uint64_t n_rows = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of its bytes
};
static_assert(sizeof(SegmentEntry) == kSegmentEntryBytes);

struct CellsHeader {
  std::int64_t n_cells = 0;
  std::int64_t n_genes = 0;
  std::int64_t nnz = 0;
  DType value_dtype = DType::kF32;
  std::uint32_t flags = 0;
  std::uint32_t shard = 0;
  std::int64_t n_segments = 0;
  std::int64_t segment_bytes = 0;  // where the writer closes a segment
  std::int64_t records_bytes = 0;
  std::uint64_t row_table_checksum = 0;
  std::uint64_t segment_table_checksum = 0;
  std::uint64_t checksum = 0;  // of the header

  // Where the parts lie follows from the numbers above.
  std::int64_t row_table_offset() const;  // at least kRecordPaddingBytes zeros before it
  std::int64_t row_table_bytes() const { return 8 * (n_cells + 1); }
  std::int64_t segment_table_offset() const { return row_table_offset() + row_table_bytes(); }
  std::int64_t segment_table_bytes() const { return kSegmentEntryBytes * n_segments; }
  std::int64_t file_bytes() const { return segment_table_offset() + segment_table_bytes(); }
};

// Fills header.checksum.
void write_header(CellsHeader& header, std::span<std::byte> out);  // kHeaderBytes
// bytes: the start of the file, as much as there is up to kHeaderBytes. Throws kCorruptData (not
// such a file, damaged, truncated) or kUnsupported (version), naming path.
CellsHeader parse_header(std::span<const std::byte> bytes, std::int64_t file_bytes,
                         const std::string& path);

}  // namespace cellfeed::format::shard
