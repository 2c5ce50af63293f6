#include "cellfeed/format/shard/cells_file_layout.h"

#include <algorithm>
#include <cstring>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/record/record.h"

namespace cellfeed::format::shard {
namespace {

constexpr std::size_t kChecksumOffset = kHeaderBytes - 8;
constexpr std::int64_t kMaxCells = std::int64_t{1} << 40;

template <typename T>
void put(std::span<std::byte> out, std::size_t offset, T value) {
  std::memcpy(out.data() + offset, &value, sizeof(T));
}

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// A count that later sums and products cannot overflow.
std::int64_t get_count(std::span<const std::byte> bytes, std::size_t offset, std::int64_t limit,
                       const char* what, const std::string& path) {
  const auto value = get<std::uint64_t>(bytes, offset);
  if (value > static_cast<std::uint64_t>(limit))
    throw_error(ErrorKind::kCorruptData, path, "the header's {} is out of range: {} at offset {}",
                what, value, offset);
  return static_cast<std::int64_t>(value);
}

void check_identity(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < sizeof(kCellsMagic) ||
      std::memcmp(bytes.data(), kCellsMagic, sizeof(kCellsMagic)) != 0)
    throw_error(
        ErrorKind::kCorruptData, path,
        "not a .cells file: it does not begin with \"CELLFEED\"; restore it, or convert again");
  if (bytes.size() < static_cast<std::size_t>(kHeaderBytes))
    throw_error(ErrorKind::kCorruptData, path, "truncated: {} bytes, shorter than the header of {}",
                bytes.size(), kHeaderBytes);
  const auto version = get<std::uint32_t>(bytes, 8);
  if (version != kCellsVersion)
    throw_error(ErrorKind::kUnsupported, path,
                "version {} of the .cells format, this cellfeed reads version {}: {}", version,
                kCellsVersion, remedy_for_version(version, kCellsVersion));
}

}  // namespace

std::int64_t CellsHeader::row_table_offset() const {
  const std::int64_t end =
      kRecordsOffset + records_bytes + static_cast<std::int64_t>(kRecordPaddingBytes);
  return (end + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
}

void write_header(CellsHeader& header, std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  std::memcpy(out.data(), kCellsMagic, sizeof(kCellsMagic));
  put(out, 8, kCellsVersion);
  put(out, 12, static_cast<std::uint32_t>(kHeaderBytes));
  put(out, 16, header.n_cells);
  put(out, 24, header.n_genes);
  put(out, 32, header.nnz);
  put(out, 40, static_cast<std::uint32_t>(header.value_dtype));
  put(out, 44, header.flags);
  put(out, 48, header.shard);
  put(out, 56, header.n_segments);
  put(out, 64, header.segment_bytes);
  put(out, 72, kRecordsOffset);
  put(out, 80, header.records_bytes);
  put(out, 88, header.row_table_offset());
  put(out, 96, header.row_table_checksum);
  put(out, 104, header.segment_table_offset());
  put(out, 112, header.segment_table_checksum);
  put(out, 120, header.file_bytes());
  header.checksum = checksum_bytes(out.first(kChecksumOffset));
  put(out, kChecksumOffset, header.checksum);
}

CellsHeader parse_header(std::span<const std::byte> bytes, std::int64_t file_bytes,
                         const std::string& path) {
  check_identity(bytes, path);
  CellsHeader header;
  header.checksum = get<std::uint64_t>(bytes, kChecksumOffset);
  if (checksum_bytes(bytes.first(kChecksumOffset)) != header.checksum)
    throw_error(
        ErrorKind::kCorruptData, path,
        "the header is damaged: bytes [0, {}) do not match their checksum; restore the file",
        kHeaderBytes);
  header.n_cells = get_count(bytes, 16, kMaxCells, "number of cells", path);
  header.n_genes = get_count(bytes, 24, INT32_MAX, "number of genes", path);
  header.nnz = get_count(bytes, 32, INT64_MAX, "number of non-zeros", path);
  const auto dtype = get<std::uint32_t>(bytes, 40);
  if (dtype > static_cast<std::uint32_t>(DType::kF64))
    throw_error(ErrorKind::kCorruptData, path, "the header names an unknown value type: {}", dtype);
  header.value_dtype = static_cast<DType>(dtype);
  header.flags = get<std::uint32_t>(bytes, 44);
  if ((header.flags & ~kFlagMeanGeneOrder) != 0)
    throw_error(ErrorKind::kUnsupported, path,
                "the header has flags this cellfeed does not know: {:#x}; update cellfeed",
                header.flags);
  header.shard = get<std::uint32_t>(bytes, 48);
  header.n_segments = get_count(bytes, 56, kMaxCells, "number of segments", path);
  header.segment_bytes = get_count(bytes, 64, kMaxRecordsBytes, "segment size", path);
  header.records_bytes = get_count(bytes, 80, kMaxRecordsBytes, "size of all records", path);
  header.row_table_checksum = get<std::uint64_t>(bytes, 96);
  header.segment_table_checksum = get<std::uint64_t>(bytes, 112);
  if (get<std::uint32_t>(bytes, 12) != kHeaderBytes || get<std::uint32_t>(bytes, 52) != 0 ||
      get<std::int64_t>(bytes, 72) != kRecordsOffset ||
      get<std::int64_t>(bytes, 88) != header.row_table_offset() ||
      get<std::int64_t>(bytes, 104) != header.segment_table_offset() ||
      get<std::int64_t>(bytes, 120) != header.file_bytes())
    throw_error(ErrorKind::kCorruptData, path, "the header's parts do not fit together");
  if (file_bytes != header.file_bytes())
    throw_error(ErrorKind::kCorruptData, path,
                "{}: {} bytes where the header says {}; restore the file",
                file_bytes < header.file_bytes() ? "truncated" : "bytes behind the end", file_bytes,
                header.file_bytes());
  return header;
}

}  // namespace cellfeed::format::shard
