// Packed rows: where the records of asked-for rows lie, and their decoding into a batch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/record/record.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/page_cache.h"
#include "cellfeed/io/range_reads.h"
#include "cellfeed/io/read_ahead.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::shard {

struct CellsFileOptions {
  // What is fetched through the map and not in memory is asked for at once.
  bool reads_ahead = false;
  // Every record is compared with its checksum before it is decoded.
  bool verifies = true;
};

// A .cells file that is open. Thread-safe.
class CellsFile {
 public:
  // source serves the tables and, unless reads is set, the records; reads serves records with
  // begin_read_many, and so does a source without map(). Throws kCorruptData unless both are the
  // same file.
  CellsFile(std::shared_ptr<const io::ByteSource> source, std::unique_ptr<io::ByteSource> reads,
            CellsFileOptions options = {});

  const CellsHeader& header() const { return header_; }
  bool verifies() const { return options_.verifies; }
  const std::string& path() const { return source_->path(); }
  // What records are read from; null where they are decoded where they are mapped.
  const io::ByteSource* reads() const {
    if (reads_) return reads_.get();
    return is_mapped() ? nullptr : source_.get();
  }
  // Of records.
  io::ReadCosts costs() const { return (reads_ ? *reads_ : *source_).costs(); }
  // Null unless it reads ahead.
  const io::ReadAhead* records_ahead() const { return records_ahead_ ? &*records_ahead_ : nullptr; }
  // Has the entries read that locate will look at, unless they are in memory; of a mapped file the
  // second time all of them. Rows outside are left out.
  void read_entries_ahead(std::span<const std::int64_t> rows) const;

  struct Place {
    std::int64_t offset = 0;  // in the file
    std::int64_t length = 0;  // of the record; its checksum lies behind it
    std::int64_t nnz = 0;
  };
  // Throws kOutOfRange, or kCorruptData when the row table's entry cannot be.
  Place locate(std::int64_t row) const;
  void prefetch_entry(std::int64_t row) const {
    if (is_mapped() && row >= 0 && row < header_.n_cells) __builtin_prefetch(row_table_ + row);
  }
  const std::uint8_t* mapped_bytes() const { return bytes_; }
  // Throws kCorruptData unless the record, of this file, is the row's and its checksum lies behind
  // it.
  void check_record(std::int64_t row, const RecordView& record) const;
  // Waits for them.
  void read_records(std::int64_t offset, std::span<std::byte> out) const {
    (reads_ ? *reads_ : *source_).read(offset, out);
  }
  void release_pages() const { source_->release_pages(); }
  // Throws where rows that were read may be wrong. Where records are verified, bytes that the file
  // lost are no record.
  void require_intact() const {
    if (options_.verifies)
      io::require_all_pages(*source_);
    else
      io::require_unchanged(*source_);
  }

 private:
  bool is_mapped() const { return bytes_ != nullptr; }
  std::array<std::uint64_t, 2> entries_of(std::int64_t row) const;

  std::shared_ptr<const io::ByteSource> source_;
  std::unique_ptr<io::ByteSource> reads_;
  io::PageCache tables_;
  CellsFileOptions options_;
  std::optional<io::ReadAhead> entries_ahead_;
  std::optional<io::ReadAhead> records_ahead_;
  // Entries are read again and again, so that once there they stay.
  mutable std::atomic<bool> has_entries_{false};
  mutable std::atomic<bool> has_asked_for_entries_{false};
  CellsHeader header_;
  const std::uint8_t* bytes_ = nullptr;
  const std::uint64_t* row_table_ = nullptr;
};

// Lifetime: keeps the file open.
std::unique_ptr<FetchedRows> begin_packed(std::shared_ptr<const CellsFile> file,
                                          std::span<const std::int64_t> rows);
// A row of one of several files.
struct RowOfFile {
  std::uint32_t file = 0;
  std::int64_t row = 0;
};
// Rows of several files, in any order. REQUIRES: files of one number of genes and type of values,
// that are decoded where they are mapped.
std::unique_ptr<FetchedRows> begin_packed(std::vector<std::shared_ptr<const CellsFile>> files,
                                          std::span<const RowOfFile> rows);
// Rows [begin, end) as they are stored. Throws kOutOfRange, kCorruptData.
PackedRecords read_packed_records(const CellsFile& file, std::int64_t begin, std::int64_t end);
// Memory that begin_packed of these rows holds at most.
std::int64_t plan_packed_bytes(const CellsFile& file, std::span<const std::int64_t> rows);

}  // namespace cellfeed::format::shard
