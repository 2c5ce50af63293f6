// RowMatrix: a matrix of a file that is read by rows, whatever its encoding. Thread-safe.
// Lifetime: the tree outlives it, and it, with the cache, what it begins to read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/stored_array.h"

namespace cellfeed::format {

class RowMatrix {
 public:
  virtual ~RowMatrix() = default;
  virtual std::int64_t n_rows() const = 0;
  virtual std::int64_t n_cols() const = 0;
  // Empty of all but tables, whose columns have names of their own.
  virtual std::vector<std::string> column_names() const { return {}; }
  // Those that rows are read of, the values first. Their keys are their positions.
  virtual std::vector<const StoredArray*> arrays() const = 0;
  // Sets what the arrays do not say: nnz, is_dense, rows_per_chunk.
  virtual void describe(StoreInfo& info) const = 0;
  // Of this memory for inflated chunks keeps what rows are found with. Returns the rest, which is
  // for the arrays.
  virtual std::int64_t take_cache_bytes(std::int64_t bytes) const { return bytes; }
  // As those of RowStore.
  virtual std::unique_ptr<FetchedRows> begin(const chunked::ChunkCache& cache,
                                             std::span<const std::int64_t> rows,
                                             const ReadContext& context) const = 0;
  virtual ReadPlan plan(const chunked::ChunkCache& cache,
                        std::span<const std::int64_t> rows) const = 0;
};

// What a cache is told of its arrays.
std::vector<chunked::CachedArray> cached_arrays(const RowMatrix& matrix);
// Sets what a store says of its matrix: shape, types, sizes.
void describe_matrix(const RowMatrix& matrix, StoreInfo& info);

}  // namespace cellfeed::format
