// Dense rows of a .npy shard, decoded as sparse rows: zeros are dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cellfeed/format/row_store.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::format::shard {

// A .npy file that is mapped. Thread-safe.
class DenseFile {
 public:
  // reads_ahead: fetched rows that are not in memory are asked for at once.
  DenseFile(std::unique_ptr<io::ByteSource> mapped, std::int64_t n_rows, std::int64_t n_cols,
            bool reads_ahead = false);
  const std::string& path() const { return mapped_->path(); }
  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_cols() const { return n_cols_; }
  const float* row(std::int64_t row) const;  // throws kOutOfRange
  // REQUIRES: rows in range.
  void read_ahead(std::span<const std::int64_t> rows) const;
  void release_pages() const { mapped_->release_pages(); }

 private:
  std::unique_ptr<io::ByteSource> mapped_;
  std::int64_t n_rows_;
  std::int64_t n_cols_;
  const float* values_ = nullptr;
  std::int64_t values_offset_ = 0;
  std::optional<io::ReadAhead> ahead_;
};

// Counts the non-zeros of each row, in parallel. Lifetime: keeps the file open.
std::unique_ptr<FetchedRows> fetch_dense(std::shared_ptr<const DenseFile> file,
                                         std::span<const std::int64_t> rows,
                                         const ParallelFor& parallel);

}  // namespace cellfeed::format::shard
