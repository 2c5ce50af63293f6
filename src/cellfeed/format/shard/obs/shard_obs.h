// ShardObs: the obs of one shard, and its library sizes. Fixed-width columns come from the mapped
// .arrow file, the others from Parquet; nothing is opened before it is asked for, and then stays
// open, so that all comes of the files that the manifest describes. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/matrix/obs.h"

namespace arrow {
class Array;
class ChunkedArray;
class Field;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace cellfeed::format::shard {

class ShardObs {
 public:
  ShardObs(std::shared_ptr<const ShardDirectory> directory, const ShardEntry& shard)
      : directory_(std::move(directory)), shard_(shard) {}

  std::vector<std::string> names() const;  // without "_index"
  // Lifetime: the column keeps the mapping alive. Its readers ask require_intact.
  matrix::FixedColumn column(const std::string& name) const;
  // See RowStore; the same lifetime.
  std::optional<matrix::FixedColumn> known_library_sizes() const;
  std::shared_ptr<arrow::Table> read(std::int64_t begin, std::int64_t end) const;

 private:
  // The .arrow file: obs, and library sizes as its last column where there are any.
  std::shared_ptr<arrow::RecordBatch> fixed() const;
  std::shared_ptr<arrow::RecordBatch> read_fixed(
      const std::shared_ptr<const MappedFile>& file) const;
  matrix::FixedColumn map_column(const arrow::RecordBatch& batch, int column) const;
  std::shared_ptr<arrow::RecordBatch> fixed_obs() const;
  std::shared_ptr<arrow::Schema> schema() const;
  std::shared_ptr<const MappedFile> parquet() const;
  // Rows [begin, end) of these columns of the Parquet file.
  std::shared_ptr<arrow::Table> read_parquet(std::int64_t begin, std::int64_t end,
                                             const std::vector<int>& columns) const;

  std::shared_ptr<const ShardDirectory> directory_;
  ShardEntry shard_;
  mutable ForkSafeMutex mutex_;  // guards what follows
  mutable std::shared_ptr<const MappedFile> fixed_file_;
  mutable std::shared_ptr<arrow::RecordBatch> fixed_;  // of fixed_file_, but for categories
  mutable std::shared_ptr<arrow::Schema> schema_;
  mutable std::shared_ptr<const MappedFile> parquet_;  // that schema_ is of
};

}  // namespace cellfeed::format::shard
