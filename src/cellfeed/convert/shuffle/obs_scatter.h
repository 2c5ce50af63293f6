// ObsScatter: obs of the inputs cut up by bucket and put together again in another order, as bytes
// in between. Categories are kept once, not with every piece.
// Thread-safe: both directions may run on several threads; gather() after the last scatter().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"

namespace arrow {
class Array;
class Buffer;
class Schema;
class Table;
}  // namespace arrow

namespace cellfeed::convert {

// Where a cell goes: its place in a bucket. bucket -1: nowhere.
struct BucketSlot {
  std::int64_t bucket = -1;
  std::int64_t slot = 0;
};

class ObsScatter {
 public:
  struct Piece {
    std::int64_t bucket = 0;
    std::shared_ptr<arrow::Buffer> bytes;
  };

  // schema: of the shards. Lifetime: sources outlive this.
  ObsScatter(const Sources& sources, std::shared_ptr<arrow::Schema> schema);
  ~ObsScatter();

  // The rows of the range, one piece a bucket. slots: one a row.
  std::vector<Piece> scatter(const SourceRange& range, std::span<const BucketSlot> slots);
  // Pieces of one bucket, back to back, as one table in the order of their slots.
  std::shared_ptr<arrow::Table> gather(std::vector<std::byte> pieces) const;

 private:
  // Categories as codes, with the slots as the last column.
  std::shared_ptr<arrow::Table> take_apart(const arrow::Table& obs, std::int64_t source,
                                           std::span<const BucketSlot> slots);
  void remember(int column, const std::shared_ptr<arrow::Array>& categories);

  const Sources& sources_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::Schema> plain_schema_;
  int source_file_column_ = -1;  // where the conversion makes it; -1: the inputs bring it along
  std::mutex mutex_;
  std::vector<std::shared_ptr<arrow::Array>> categories_;  // a column; guarded by mutex_
};

}  // namespace cellfeed::convert
