// TableFile: an open Parquet file: what its footer says, and row groups of some of its columns,
// decoded by Arrow. Thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/format/arrow_source.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_ahead.h"

namespace parquet {
class FileMetaData;
}

namespace cellfeed::format {
class DecodePool;
}

namespace cellfeed::format::parquet_table {

// A column of one row group, as the footer says; inside the file.
struct StoredChunk {
  io::ByteRange range{};
  std::int64_t n_values = 0;  // missing ones included, and one of each list that holds none
  std::int64_t bytes = 0;     // uncompressed
  std::string compression{};  // "none", "snappy", ...
};

// What the footer says of the values of a chunk, where it does.
struct ChunkStatistics {
  std::optional<std::int64_t> n_missing{};  // lists that hold none count
  std::optional<std::int64_t> largest{};    // of integers
};

class TableFile {
 public:
  // Throws kNotFound or kIo; kCorruptData for what is no Parquet file or a damaged one,
  // kUnsupported for one that is encrypted.
  explicit TableFile(std::string path);
  ~TableFile();

  const std::string& path() const { return path_; }
  std::int64_t size() const { return source_->size(); }
  const io::ByteSource& source() const { return *source_; }
  // For what will be read of source().map(); null where it has none.
  const io::ReadAhead* ahead() const { return ahead_ ? &*ahead_ : nullptr; }
  // Throws where the file is another one since it was opened, or could not be read to its end.
  void require_unchanged() const { io::require_unchanged(*source_); }

  std::int64_t n_rows() const { return first_rows_.back(); }
  int n_groups() const { return static_cast<int>(first_rows_.size()) - 1; }
  // Of each row group, and of what would follow the last.
  std::span<const std::int64_t> first_rows() const { return first_rows_; }
  std::int64_t rows_of(int group) const { return first_rows_[group + 1] - first_rows_[group]; }
  int group_of(std::int64_t row) const;  // REQUIRES: 0 <= row < n_rows()

  const arrow::Schema& schema() const { return *schema_; }
  // Columns of numbers and texts have one; lists of these too.
  std::span<const int> leaves(int column) const { return leaves_[column]; }
  // What the footer notes under this key, such as "pandas".
  std::optional<std::string> note(const std::string& key) const;
  // Throws kCorruptData where the footer says what cannot be.
  StoredChunk chunk(int group, int leaf) const;
  ChunkStatistics statistics(int group, int leaf) const;

  struct Reading {
    int group = 0;
    std::span<const int> leaves = {};   // ascending; columns come in their order
    std::size_t n_leaves_at_once = 0;   // 0: all
    std::int64_t batch_rows = 0;        // at a time, at most; 0: all
    std::int64_t most_rows = -1;        // the first of the group; -1: all
    bool keeps_repeated_texts = false;  // of lists: as numbers into what occurs
    std::vector<HeldBytes> held = {};   // of the file, read before; what lacks is read
  };
  // Rows, and which of the leaves their first column is.
  using Visit = std::function<void(const arrow::RecordBatch&, std::size_t first_leaf)>;
  // Calls visit with the rows of a group in their order. Throws kCorruptData where there are fewer
  // or more, or anything is not as Parquet says.
  void read(const Reading& reading, const Visit& visit) const;

 private:
  void read_footer();
  void check_rows();
  void read_slices(const Reading& reading, const DecodePool& pool, std::shared_ptr<SourceFile> file,
                   const Visit& visit) const;
  std::int64_t most_bytes(const Reading& reading) const;

  std::string path_;
  std::shared_ptr<const io::ByteSource> source_;
  std::optional<io::ReadAhead> ahead_;
  std::unique_ptr<const DecodePool> footer_pool_;  // the footer keeps it in mind
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::vector<int>> leaves_;
  std::vector<std::int64_t> first_rows_{0};
};

}  // namespace cellfeed::format::parquet_table
