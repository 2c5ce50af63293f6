#include "cellfeed/format/shard/cells_file_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/record/record_checksum.h"
#include "cellfeed/io/atomic_file.h"

namespace cellfeed::format::shard {
namespace {

template <typename T>
std::span<const std::byte> raw_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

}  // namespace

struct CellsFileWriter::State {
  State(io::FileTarget target, const CellsFileSpec& s)
      : spec(s), file(std::move(target), io::OnExisting::kReplace) {}

  void append_zeros(std::int64_t n) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(n));
    file.append(zeros);
  }

  // Whole records that all belong to the open segment.
  void append_run(std::span<const std::byte> bytes) {
    checksum.add(bytes);
    file.append(bytes);
  }

  void close_segment() {
    if (open.n_rows == 0) return;
    open.checksum = checksum.value();
    checksum.reset();
    segments.push_back(open);
    open = SegmentEntry{.offset = open.offset + open.length,
                        .first_row = open.first_row + open.n_rows};
  }

  void check_row(std::uint32_t row_nnz, std::uint32_t length) const {
    if (length < kRecordChecksumBytes)
      throw_invalid("EncodedRows hold a record without a checksum: {} bytes", length);
    if (row_nnz > kMaxRowNnz)
      throw_error(ErrorKind::kUnsupported, file.path(),
                  "a cell has more non-zeros than a shard can hold: {}, at most {} fit", row_nnz,
                  kMaxRowNnz);
    if (records_bytes + length > kMaxRecordsBytes)
      throw_error(ErrorKind::kUnsupported, file.path(),
                  "the shard grows beyond {} bytes: ask for fewer cells per shard",
                  kMaxRecordsBytes);
  }

  // Turns the hash behind the next row's record into its checksum.
  void place_record(std::span<std::uint8_t> record, std::uint32_t row_nnz) const {
    const std::size_t length = record.size() - kRecordChecksumBytes;
    std::uint32_t hash;
    std::memcpy(&hash, record.data() + length, kRecordChecksumBytes);
    const std::uint32_t checksum =
        record_checksum(hash, {.shard = static_cast<std::uint64_t>(spec.shard),
                               .row = row_table.size(),
                               .length = length,
                               .nnz = row_nnz});
    std::memcpy(record.data() + length, &checksum, kRecordChecksumBytes);
  }

  CellsFileSpec spec;
  io::AtomicFile file;
  RunningChecksum checksum;  // of the open segment
  std::vector<std::uint64_t> row_table;
  std::vector<SegmentEntry> segments;
  SegmentEntry open;
  std::int64_t records_bytes = 0;
  std::int64_t nnz = 0;
};

CellsFileWriter::CellsFileWriter(io::FileTarget target, const CellsFileSpec& spec) {
  if (spec.n_genes < 0 || spec.n_genes > INT32_MAX)
    throw_error(ErrorKind::kUnsupported, target.path(), "too many genes for a shard: {}",
                spec.n_genes);
  if (spec.segment_bytes < 1)
    throw_invalid("segment_bytes must be positive, not {}", spec.segment_bytes);
  state_ = std::make_unique<State>(std::move(target), spec);
  state_->append_zeros(kRecordsOffset);
}

CellsFileWriter::~CellsFileWriter() = default;
CellsFileWriter::CellsFileWriter(CellsFileWriter&&) noexcept = default;

std::int64_t CellsFileWriter::n_cells() const {
  return static_cast<std::int64_t>(state_->row_table.size());
}
std::int64_t CellsFileWriter::nnz() const { return state_->nnz; }

void CellsFileWriter::append(EncodedRows& rows) {
  State& s = *state_;
  const auto bytes = raw_bytes(rows.bytes);
  std::size_t run_begin = 0;
  std::size_t position = 0;
  for (std::size_t i = 0; i < rows.lengths.size(); ++i) {
    const std::uint32_t length = rows.lengths[i];
    s.check_row(rows.nnz[i], length);
    if (length > bytes.size() - position)
      throw_invalid("EncodedRows are shorter than their lengths say");
    s.place_record(std::span(rows.bytes).subspan(position, length), rows.nnz[i]);
    s.row_table.push_back(pack_row(s.records_bytes, rows.nnz[i]));
    s.records_bytes += length;
    s.nnz += rows.nnz[i];
    position += length;
    ++s.open.n_rows;
    s.open.length += length;
    if (static_cast<std::int64_t>(s.open.length) < s.spec.segment_bytes) continue;
    s.append_run(bytes.subspan(run_begin, position - run_begin));
    run_begin = position;
    s.close_segment();
  }
  if (position != bytes.size()) throw_invalid("EncodedRows are longer than their lengths say");
  s.append_run(bytes.subspan(run_begin));
}

FileEntry CellsFileWriter::finish() {
  State& s = *state_;
  s.close_segment();
  CellsHeader header;
  header.n_cells = n_cells();
  header.n_genes = s.spec.n_genes;
  header.nnz = s.nnz;
  header.value_dtype = s.spec.value_dtype;
  header.flags = s.spec.gene_order == GeneOrder::kMean ? kFlagMeanGeneOrder : 0;
  header.shard = static_cast<std::uint32_t>(s.spec.shard);
  header.n_segments = static_cast<std::int64_t>(s.segments.size());
  header.segment_bytes = s.spec.segment_bytes;
  header.records_bytes = s.records_bytes;
  s.row_table.push_back(pack_row(s.records_bytes, 0));
  header.row_table_checksum = checksum_bytes(raw_bytes(s.row_table));
  header.segment_table_checksum = checksum_bytes(raw_bytes(s.segments));
  s.append_zeros(header.row_table_offset() - s.file.size());
  s.file.append(raw_bytes(s.row_table));
  s.file.append(raw_bytes(s.segments));
  std::array<std::byte, kHeaderBytes> bytes;
  write_header(header, bytes);
  s.file.overwrite(0, bytes);
  s.file.commit();
  return {.name = std::filesystem::path(s.file.path()).filename().string(),
          .bytes = header.file_bytes(),
          .checksum = header.checksum};
}

}  // namespace cellfeed::format::shard
