// Dense rows of a .npy shard: copied into dense batches, or without their zeros into sparse ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/dense_row.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/dense_file_layout.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/page_cache.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::format::shard {

struct DenseFileOptions {
  // Fetched rows that are not in memory are asked for at once.
  bool reads_ahead = false;
  // Given the checksum of the file's checksums when the first row is read; throws unless it is the
  // manifest's. Null: nothing is compared.
  std::function<void(std::uint64_t)> check_identity = {};
};

// A .npy file that is open. Thread-safe.
class DenseFile {
 public:
  DenseFile(std::shared_ptr<const io::ByteSource> source, std::int64_t n_rows, std::int64_t n_cols,
            DenseFileOptions options = {});
  const std::string& path() const { return source_->path(); }
  io::ReadCosts costs() const { return source_->costs(); }
  std::int64_t n_rows() const { return layout_.n_rows; }
  std::int64_t n_cols() const { return layout_.n_cols; }
  const DenseRowDecoder& decoder() const { return decoder_; }
  // What rows are read from; null where they lie in memory.
  const io::ByteSource* reads() const { return values_ == nullptr ? source_.get() : nullptr; }
  // Of the row; where checksums are compared, of its block. Throws kOutOfRange.
  io::ByteRange stored_range(std::int64_t row) const;
  // Where the row begins in that range.
  std::int64_t offset_in_range(std::int64_t row) const {
    return kNpyHeaderBytes + row * layout_.row_bytes - stored_range(row).offset;
  }
  // Throws kOutOfRange. REQUIRES: no reads().
  const float* row(std::int64_t row) const;
  // Compares the row's block with its checksum, of what is mapped the first time that one of its
  // rows is asked for. stored: its range, where it was read. REQUIRES: row in range. Throws
  // kCorruptData.
  void check(std::int64_t row, std::span<const std::byte> stored = {}) const;
  // REQUIRES: rows in range.
  void read_ahead(std::span<const std::int64_t> rows) const;
  void release_pages() const { source_->release_pages(); }
  // Throws where rows that were read may be wrong: blocks are compared with their checksums once.
  void require_intact() const { io::require_unchanged(*source_); }

 private:
  void require_row(std::int64_t row) const;
  void identify() const;

  std::shared_ptr<const io::ByteSource> source_;
  io::PageCache tables_;
  DenseLayout layout_;
  DenseRowDecoder decoder_;
  DenseFileOptions options_;
  const float* values_ = nullptr;
  std::optional<io::ReadAhead> ahead_;
  // Two threads may check the same at once; nobody waits.
  mutable std::atomic<bool> is_identified_{false};
  mutable std::vector<std::atomic<std::uint64_t>> checked_;  // a bit for each block
};

// Its tasks check some rows each, and count their entries. Lifetime: keeps the file open.
std::unique_ptr<FetchedRows> begin_dense(std::shared_ptr<const DenseFile> file,
                                         std::span<const std::int64_t> rows,
                                         const ReadContext& context = {});

// Memory that begin_dense of these rows holds at most.
std::int64_t plan_dense_bytes(const DenseFile& file, std::span<const std::int64_t> rows);

}  // namespace cellfeed::format::shard
