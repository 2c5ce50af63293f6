// GroupMatrix: the matrix of a Parquet table, which is decoded a row group at a time. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/format/parquet/group_cache.h"
#include "cellfeed/format/parquet/table_file.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::parquet_table {

// Of one row group what its matrix is read from.
struct StoredGroup {
  std::vector<io::ByteRange> ranges;  // ascending, none beside another
  std::int64_t stored_bytes = 0;
  std::int64_t most_entries = 0;   // of all its rows, for lists
  std::int64_t decoded_bytes = 0;  // of the group, as decode() gives it
};

class GroupMatrix {
 public:
  virtual ~GroupMatrix() = default;
  const TableFile& file() const { return file_; }
  const StoredGroup& group(int number) const { return groups_[number]; }
  std::int64_t n_cols() const { return n_cols_; }
  DType dtype() const { return dtype_; }
  const std::string& compression() const { return compression_; }

  // Sets what is known of the entries.
  virtual void describe(StoreInfo& info) const = 0;
  // One row group. held: what was read of its ranges. REQUIRES: out has decoded_bytes.
  virtual void decode(int number, std::vector<HeldBytes> held, std::span<std::byte> out) const = 0;
  // As those of RowStore; decoded groups are kept in the cache.
  virtual std::unique_ptr<FetchedRows> begin(const GroupCache& cache,
                                             std::span<const std::int64_t> rows,
                                             const ReadContext& context) const = 0;
  virtual ReadPlan plan(std::span<const std::int64_t> rows) const = 0;

 protected:
  // leaves: ascending.
  GroupMatrix(const TableFile& file, std::vector<int> leaves, DType dtype, std::int64_t n_cols);
  std::span<const int> leaves() const { return leaves_; }
  // What the footer says of each group; sees every chunk.
  template <typename See>
  void list_groups(const See& see);

 private:
  const TableFile& file_;
  const std::vector<int> leaves_;
  const DType dtype_;
  const std::int64_t n_cols_;
  std::vector<StoredGroup> groups_;
  std::string compression_ = "none";
};

template <typename See>
void GroupMatrix::list_groups(const See& see) {
  for (int g = 0; g < file_.n_groups(); ++g) {
    StoredGroup& group = groups_.emplace_back();
    for (const int leaf : leaves_) {
      const StoredChunk chunk = file_.chunk(g, leaf);
      compression_ = chunk.compression;
      see(group, g, leaf, chunk);
      group.stored_bytes += chunk.range.length;
      if (!group.ranges.empty() &&
          group.ranges.back().offset + group.ranges.back().length == chunk.range.offset)
        group.ranges.back().length += chunk.range.length;
      else
        group.ranges.push_back(chunk.range);
    }
  }
}

}  // namespace cellfeed::format::parquet_table
