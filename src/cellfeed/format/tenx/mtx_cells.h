// MtxCells: what a list beside a Matrix Market file says of its cells, read in blocks when it is
// asked for: a few blocks are kept, however many cells there are. Thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/format/tenx/mtx_lists.h"
#include "cellfeed/format/tenx/text_type.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/sequential_reader.h"

namespace cellfeed::format::tenx {

class MtxCells {
 public:
  static constexpr std::int64_t kBlockCells = std::int64_t{1} << 16;

  // A barcode in the first column of each line, or, with headings, a CSV table whose first column
  // names the cells. Reads `most` lines at most, keeps what the columns are. Throws kCorruptData
  // naming the line.
  MtxCells(SourcePtr source, bool has_headings, std::int64_t most);

  const ListLength& length() const { return length_; }
  // Names of the columns, "_index" first.
  const std::vector<std::string>& names() const { return names_; }
  // Cells [begin, end), with all columns. Blocks that are asked for in ascending order are read
  // once; an earlier one begins the file anew. Throws kCorruptData naming the line, also where the
  // file was written to since, and kUnsupported for more than 2 GiB of texts at once. REQUIRES:
  // begin <= end <= length().n.
  std::shared_ptr<arrow::Table> read(std::int64_t begin, std::int64_t end) const;
  // One column of all cells. REQUIRES: one of names().
  std::shared_ptr<arrow::Array> read(const std::string& name) const;

 private:
  using Block = std::shared_ptr<arrow::RecordBatch>;
  using Fields = std::vector<std::string_view>;

  void add_names(const Fields& headings);
  // Without headings only the first is of use. Lifetime: as of split_line.
  const Fields& fields_of(std::int64_t line, std::string_view text, CsvFields& split) const;
  std::shared_ptr<arrow::Schema> schema() const;
  arrow::ArrayVector read_columns(const std::vector<int>& columns, std::int64_t begin,
                                  std::int64_t end) const;
  std::shared_ptr<arrow::Array> joined(const arrow::ArrayVector& parts, TextType type) const;
  Block block(std::int64_t number) const;
  Block read_block() const;
  std::string_view next_line(std::int64_t cell) const;

  const SourcePtr source_;
  const bool has_headings_;
  std::vector<std::string> names_;
  std::vector<TextType> types_;  // of each
  ListLength length_;
  mutable ForkSafeMutex mutex_;                   // guards what follows
  mutable std::optional<io::LineReader> reader_;  // stands before block next_
  mutable std::int64_t next_ = 0;
  mutable std::deque<std::pair<std::int64_t, Block>> known_;  // those read last
};

}  // namespace cellfeed::format::tenx
