#include "cellfeed/format/shard/packed_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/moved_rows.h"
#include "cellfeed/format/row_copy.h"
#include "cellfeed/format/shard/record/record_checksum.h"

namespace cellfeed::format::shard {
namespace {

// Of the row table where it is not mapped: 8,192 rows a page, at most 8 million rows kept.
constexpr io::PageCacheOptions kTablePages{.page_bytes = 64 << 10, .kept_bytes = 64 << 20};
constexpr std::size_t kEntriesAhead = 16;

// Entries of 4 bytes that a decoder with room may overwrite.
constexpr std::int64_t kOverrunEntries = 16;

constexpr std::int64_t kChecksumBytes = kRecordChecksumBytes;

using Files = std::vector<std::shared_ptr<const CellsFile>>;
using FileOfRow = std::vector<std::uint32_t>;  // empty where there is one file

class PackedRows final : public FetchedRows, public MovedRows {
 public:
  PackedRows(Files files, std::vector<std::int64_t> rows, FileOfRow file_of)
      : files_(std::move(files)),
        rows_(std::move(rows)),
        file_of_(std::move(file_of)),
        records_(rows_.size()) {
    read_entries_ahead();
    const io::ByteSource* source = file_of_.empty() ? files_.front()->reads() : nullptr;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i + kEntriesAhead < rows_.size())
        file(i + kEntriesAhead).prefetch_entry(rows_[i + kEntriesAhead]);
      const CellsFile::Place place = file(i).locate(rows_[i]);
      records_[i] = {source ? nullptr : file(i).mapped_bytes() + place.offset,
                     static_cast<std::size_t>(place.length), place.nnz};
      bytes_used_ += place.length + kChecksumBytes;
      if (source) reads_.add(*source, {place.offset, place.length + kChecksumBytes});
    }
    bytes_read_ = bytes_used_;
    if (source) begin_reads();
    read_ahead();
  }

  std::int64_t n_rows() const override { return static_cast<std::int64_t>(records_.size()); }
  void wait() override { reads_.wait(); }
  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < records_.size(); ++i) nnz[i] = records_[i].nnz;
  }
  void prefetch(std::int64_t begin, std::int64_t end) const override {
    for (std::int64_t i = begin; i < end; ++i) prefetch(i);
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    decode_moved(begin, end, target, {});
    require_intact();
  }
  const MovedRows* moved() const override { return this; }
  void decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                    const ColumnPlaces& places) const override;
  void require_intact() const override {
    for (const auto& file : files_) file->require_intact();
  }
  std::int64_t bytes_read() const override { return bytes_read_; }
  std::int64_t bytes_used() const override { return bytes_used_; }
  std::int64_t bytes_held() const override { return reads_.bytes_held(); }

 private:
  const CellsFile& file(std::size_t i) const { return *files_[file_of_.empty() ? 0 : file_of_[i]]; }
  // fn(file, numbers of its rows in the request), of each file.
  template <typename Fn>
  void for_each_file(const Fn& fn) const;
  void read_entries_ahead() const;
  void begin_reads();
  void read_ahead();
  void prefetch(std::int64_t i) const {
    prefetch_record(records_[i].bytes, records_[i].length + kRecordChecksumBytes);
  }
  void decode_row(std::int64_t i, const CsrTarget& target, std::int32_t* indices, void* values,
                  OverrunRoom room) const;
  void decode_into_caches(std::int64_t begin, std::int64_t end, bool in_order,
                          const CsrTarget& target, const ColumnPlaces& places) const;
  void decode_past_caches(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                          const ColumnPlaces& places) const;
  std::string first_misfit(const RecordView& record, Casting casting, DType out) const;

  const Files files_;
  const std::vector<std::int64_t> rows_;
  const FileOfRow file_of_;
  std::vector<RecordView> records_;
  io::RangeReads reads_;  // of each record, unless it is mapped
  std::int64_t bytes_read_ = 0;
  std::int64_t bytes_used_ = 0;
};

void PackedRows::begin_reads() {
  reads_.begin();
  for (std::size_t i = 0; i < records_.size(); ++i)
    records_[i].bytes = reinterpret_cast<const std::uint8_t*>(reads_.bytes(i).data());
  bytes_read_ = reads_.bytes_read();
}

template <typename Fn>
void PackedRows::for_each_file(const Fn& fn) const {
  std::vector<std::vector<std::size_t>> of_files(files_.size());
  for (auto& own : of_files) own.reserve(rows_.size() / files_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i)
    of_files[file_of_.empty() ? 0 : file_of_[i]].push_back(i);
  for (std::size_t f = 0; f < files_.size(); ++f) fn(*files_[f], of_files[f]);
}

void PackedRows::read_entries_ahead() const {
  if (file_of_.empty()) return files_.front()->read_entries_ahead(rows_);
  std::vector<std::int64_t> own;
  for_each_file([&](const CellsFile& file, std::span<const std::size_t> numbers) {
    own.clear();
    for (const std::size_t i : numbers) own.push_back(rows_[i]);
    file.read_entries_ahead(own);
  });
}

// What is not in memory.
void PackedRows::read_ahead() {
  std::int64_t bytes = 0;
  const auto ask = [&](const CellsFile& file, std::int64_t n, const auto& number) {
    if (file.records_ahead() == nullptr) return;
    bytes += file.records_ahead()->ask(n, [&](std::int64_t k, std::vector<io::ByteRange>& ranges) {
      const RecordView& record = records_[number(k)];
      // Decoding over-reads, further than the checksum.
      ranges.push_back({record.bytes - file.mapped_bytes(),
                        static_cast<std::int64_t>(record.length + kRecordPaddingBytes)});
    });
  };
  if (file_of_.empty())
    ask(*files_.front(), n_rows(), [](std::int64_t k) { return k; });
  else
    for_each_file([&](const CellsFile& file, std::span<const std::size_t> numbers) {
      ask(file, std::ssize(numbers), [&](std::int64_t k) { return numbers[k]; });
    });
  if (bytes > 0) bytes_read_ = bytes;
}

// Decoded again as the widest type of its kind, to name the value in the message.
std::string PackedRows::first_misfit(const RecordView& record, Casting casting, DType out) const {
  const CellsHeader& header = files_.front()->header();
  const DType stored = header.value_dtype;
  const auto n = static_cast<std::size_t>(record.nnz);
  std::vector<std::int32_t> indices(n);
  std::string text;
  const auto find = [&](auto zero, DType wide) {
    using T = decltype(zero);
    std::vector<T> values(n);
    decode_record({record.bytes, record.length}, record.nnz, header.n_genes, stored, wide,
                  Casting::kSameKind, indices.data(), values.data());
    for (std::size_t i = 0; i < n && text.empty(); ++i)
      dispatch_dtype(out, [&](auto tag) {
        Fit fit;
        if constexpr (!std::is_same_v<decltype(tag), bool>)
          convert_value<decltype(tag)>(values[i], &fit);
        if (!fit.allows(may_round(casting, stored, out)))
          text = fmt::format("has the value {} in column {}", values[i], indices[i]);
      });
  };
  if (is_float(stored))
    find(double{}, DType::kF64);
  else
    find(std::int64_t{}, DType::kI64);
  return text;
}

void PackedRows::decode_row(std::int64_t i, const CsrTarget& target, std::int32_t* indices,
                            void* values, OverrunRoom room) const {
  const RecordView& record = records_[i];
  // Its bytes are then in the nearest cache for the decoder.
  const CellsHeader& header = file(i).header();
  if (file(i).verifies()) file(i).check_record(rows_[i], record);
  try {
    decode_record({record.bytes, record.length}, record.nnz, header.n_genes, header.value_dtype,
                  target.dtype, target.casting, indices, values, room);
  } catch (const Error& error) {
    const std::string where = error.kind() == ErrorKind::kPrecision
                                  ? first_misfit(record, target.casting, target.dtype)
                                  : fmt::format("at offset {}", file(i).locate(rows_[i]).offset);
    throw Error(error.kind(), fmt::format("row {} {}: {}", rows_[i], where, error.what()),
                file(i).path());
  }
  target.counts[i] = static_cast<std::int32_t>(record.nnz);
}

void PackedRows::decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                              const ColumnPlaces& places) const {
  if (begin == end) return;
  bool in_order = true;
  for (std::int64_t i = begin; i + 1 < end; ++i)
    in_order &= target.place[i + 1] == target.place[i] + records_[i].nnz;
  // The hardware has the lines behind the last row ready by itself.
  if (target.past_caches && !in_order) return decode_past_caches(begin, end, target, places);
  decode_into_caches(begin, end, in_order, target, places);
}

void PackedRows::decode_into_caches(std::int64_t begin, std::int64_t end, bool in_order,
                                    const CsrTarget& target, const ColumnPlaces& places) const {
  // A row may write over what follows it only where later rows of this very call lie.
  const std::int64_t range_end = target.place[end - 1] + records_[end - 1].nnz;
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) prefetch(i + kRowsAhead);
    const bool roomy = in_order && range_end - target.place[i] - records_[i].nnz >= kOverrunEntries;
    std::int32_t* indices = target.indices + target.place[i];
    auto* values = static_cast<std::byte*>(target.values) + target.place[i] * value_bytes;
    decode_row(i, target, indices, values, roomy ? OverrunRoom::k64Bytes : OverrunRoom::kNone);
    move_columns({indices, static_cast<std::size_t>(records_[i].nnz)}, places, indices);
  }
}

// Rows are made in a scratch that stays in the nearest caches, and go to memory from there in whole
// lines: a store of a line that is in no cache has it read first.
void PackedRows::decode_past_caches(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                                    const ColumnPlaces& places) const {
  static thread_local matrix::Buffer<std::int32_t> indices;
  static thread_local matrix::Buffer<std::byte> values;
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t nnz = records_[i].nnz;
    indices.reset(static_cast<std::size_t>(nnz));
    values.reset(static_cast<std::size_t>(nnz * value_bytes));
    decode_row(i, target, indices.data(), values.data(), OverrunRoom::k64Bytes);
    UpcomingBytes upcoming;
    if (i + kRowsAhead < end)
      upcoming = {reinterpret_cast<const std::byte*>(records_[i + kRowsAhead].bytes),
                  static_cast<std::int64_t>(records_[i + kRowsAhead].length)};
    move_columns({indices.data(), static_cast<std::size_t>(nnz)}, places,
                 target.indices + target.place[i], upcoming, true);
    copy_bytes(values.data(), nnz * value_bytes,
               static_cast<std::byte*>(target.values) + target.place[i] * value_bytes, {}, true);
  }
  publish_row_copies(true);
}

}  // namespace

CellsFile::CellsFile(std::shared_ptr<const io::ByteSource> source,
                     std::unique_ptr<io::ByteSource> reads, CellsFileOptions options)
    : source_(std::move(source)),
      reads_(std::move(reads)),
      tables_(source_, kTablePages),
      options_(options) {
  const auto all = source_->map();
  const io::Bytes head = tables_.read({0, std::min<std::int64_t>(source_->size(), kHeaderBytes)});
  header_ = parse_header(head.view(), source_->size(), path());
  if (!all.empty()) {
    bytes_ = reinterpret_cast<const std::uint8_t*>(all.data());
    row_table_ = reinterpret_cast<const std::uint64_t*>(bytes_ + header_.row_table_offset());
  }
  if (reads_) {
    // Opened by its name a second time, when another file may have had it.
    std::array<std::byte, kHeaderBytes> bytes;
    reads_->read(0, bytes);
    if (std::memcmp(bytes.data(), head.view().data(), bytes.size()) != 0)
      throw_error(ErrorKind::kCorruptData, path(),
                  "was replaced while it was opened; open it again");
  }
  if (!options_.reads_ahead || !is_mapped()) return;
  entries_ahead_.emplace(*source_, io::ReadAheadOptions{.bytes = 8 * header_.n_cells});
  if (!reads_)
    records_ahead_.emplace(*source_, io::ReadAheadOptions{.bytes = header_.records_bytes});
}

void CellsFile::read_entries_ahead(std::span<const std::int64_t> rows) const {
  if (!is_mapped()) {
    std::vector<io::ByteRange> entries;
    for (const std::int64_t row : rows)
      if (row >= 0 && row < header_.n_cells)
        entries.push_back({header_.row_table_offset() + 8 * row, 16});
    tables_.fetch(entries);
    return;
  }
  if (!entries_ahead_ || has_entries_.load(std::memory_order_relaxed)) return;
  if (has_asked_for_entries_.exchange(true)) {
    const io::ByteRange table{header_.row_table_offset(), 8 * (header_.n_cells + 1)};
    source_->will_read({&table, 1});
    has_entries_.store(true, std::memory_order_relaxed);
    return;
  }
  const std::int64_t bytes = entries_ahead_->ask(
      std::ssize(rows), [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
        if (rows[i] >= 0 && rows[i] < header_.n_cells)
          ranges.push_back({header_.row_table_offset() + 8 * rows[i], 16});
      });
  if (bytes == 0) has_entries_.store(true, std::memory_order_relaxed);
}

std::array<std::uint64_t, 2> CellsFile::entries_of(std::int64_t row) const {
  if (is_mapped()) return {row_table_[row], row_table_[row + 1]};
  const io::Bytes stored = tables_.read({header_.row_table_offset() + 8 * row, 16});
  std::array<std::uint64_t, 2> entries;
  std::memcpy(entries.data(), stored.view().data(), sizeof entries);
  return entries;
}

void CellsFile::check_record(std::int64_t row, const RecordView& record) const {
  std::uint32_t stored;
  std::memcpy(&stored, record.bytes + record.length, sizeof(stored));
  const std::uint32_t found = record_checksum(hash_record({record.bytes, record.length}),
                                              {.shard = header_.shard,
                                               .row = static_cast<std::uint64_t>(row),
                                               .length = record.length,
                                               .nnz = static_cast<std::uint64_t>(record.nnz)});
  if (found == stored) return;
  require_intact();
  throw_error(ErrorKind::kCorruptData, path(),
              "row {} at offset {}: the record does not match its checksum, so the file is "
              "damaged; restore it or convert again",
              row, locate(row).offset);
}

CellsFile::Place CellsFile::locate(std::int64_t row) const {
  if (row < 0 || row >= header_.n_cells)
    throw_error(ErrorKind::kOutOfRange, path(), "row out of range: {}, rows {}", row,
                header_.n_cells);
  const auto entries = entries_of(row);
  const std::int64_t begin = row_offset(entries[0]);
  const std::int64_t end = row_offset(entries[1]);
  const std::int64_t nnz = row_nnz(entries[0]);
  if (begin + kChecksumBytes > end || end > header_.records_bytes || nnz > header_.n_genes) {
    require_intact();
    throw_error(ErrorKind::kCorruptData, path(),
                "the row table is damaged: row {} at offset {}; restore the file", row,
                header_.row_table_offset() + 8 * row);
  }
  return {kRecordsOffset + begin, end - begin - kChecksumBytes, nnz};
}

std::unique_ptr<FetchedRows> begin_packed(std::shared_ptr<const CellsFile> file,
                                          std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> numbers(rows.begin(), rows.end());
  return std::make_unique<PackedRows>(Files{std::move(file)}, std::move(numbers), FileOfRow());
}

std::unique_ptr<FetchedRows> begin_packed(Files files, std::span<const RowOfFile> rows) {
  std::vector<std::int64_t> numbers;
  FileOfRow file_of;
  numbers.reserve(rows.size());
  for (const RowOfFile& row : rows) numbers.push_back(row.row);
  if (files.size() > 1)
    for (const RowOfFile& row : rows) file_of.push_back(row.file);
  return std::make_unique<PackedRows>(std::move(files), std::move(numbers), std::move(file_of));
}

PackedRecords read_packed_records(const CellsFile& file, std::int64_t begin, std::int64_t end) {
  if (begin < 0 || begin > end || end > file.header().n_cells)
    throw_error(ErrorKind::kOutOfRange, file.path(), "rows out of range: [{}, {}), rows {}", begin,
                end, file.header().n_cells);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  file.read_entries_ahead(rows);
  PackedRecords records;
  records.n_cols = file.header().n_genes;
  records.value_dtype = file.header().value_dtype;
  std::int64_t first = 0, last = 0;
  for (const std::int64_t row : rows) {
    const CellsFile::Place place = file.locate(row);
    if (row == begin) first = place.offset;
    if (place.offset < last)
      throw_error(ErrorKind::kCorruptData, file.path(),
                  "the row table is damaged: row {} begins before row {} ends; restore the file",
                  row, row - 1);
    last = place.offset + place.length + kChecksumBytes;
    records.offsets.push_back(place.offset - first);
    records.lengths.push_back(place.length);
    records.nnz.push_back(place.nnz);
  }
  const auto n_bytes = static_cast<std::size_t>(last - first);
  records.bytes.resize(n_bytes + kRecordPaddingBytes);
  file.read_records(first, std::span(records.bytes).first(n_bytes));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(records.bytes.data());
  for (std::size_t i = 0; file.verifies() && i < rows.size(); ++i)
    file.check_record(rows[i], {bytes + records.offsets[i],
                                static_cast<std::size_t>(records.lengths[i]), records.nnz[i]});
  file.require_intact();
  return records;
}

std::int64_t plan_packed_bytes(const CellsFile& file, std::span<const std::int64_t> rows) {
  if (!file.reads()) return 0;
  file.read_entries_ahead(rows);
  std::int64_t bytes = 0;
  for (const std::int64_t row : rows) bytes += file.locate(row).length + kChecksumBytes;
  return io::RangeReads::planned_bytes(*file.reads(), std::ssize(rows), bytes);
}

}  // namespace cellfeed::format::shard
