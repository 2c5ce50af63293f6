// MtxBarcodes: the names of the cells of a Matrix Market folder, read in blocks when they are asked
// for: a few blocks are kept, however many cells there are. Thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/format/tenx/mtx_lists.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/sequential_reader.h"

namespace cellfeed::format::tenx {

class MtxBarcodes {
 public:
  static constexpr std::int64_t kBlockCells = std::int64_t{1} << 16;

  // Reads all, keeps nothing. Throws kCorruptData where there are not as many lines as cells.
  MtxBarcodes(std::shared_ptr<const io::ByteSource> source, const MtxShape& shape);

  // Of cells [begin, end), as strings. Blocks that are asked for in ascending order are read once;
  // an earlier one begins the file anew. Throws kCorruptData naming the line, also where the file
  // was written to since, and kUnsupported for more than 2 GiB at once. REQUIRES: cells of the
  // shape.
  std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const;

 private:
  using Names = std::shared_ptr<arrow::Array>;

  Names block(std::int64_t number) const;
  Names read_block() const;

  const std::shared_ptr<const io::ByteSource> source_;
  const std::int64_t n_cells_;
  mutable ForkSafeMutex mutex_;                   // guards what follows
  mutable std::optional<io::LineReader> reader_;  // stands before block next_
  mutable std::int64_t next_ = 0;
  mutable std::deque<std::pair<std::int64_t, Names>> known_;  // those read last
};

}  // namespace cellfeed::format::tenx
