// MemoryStore: the reference RowStore. Everything is in memory; nothing is cached, planned or
// coalesced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::format::memory {

// Rows as a file might hold them: any value dtype; indices may be unsorted or repeat inside a row.
struct StoredCsr {
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  matrix::Buffer<std::int64_t> indptr;   // n_rows + 1
  matrix::Buffer<std::int32_t> indices;  // nnz
  matrix::Buffer<std::byte> values;      // nnz elements of dtype
  DType dtype = DType::kF32;
};

// A copy of the block with values of `dtype`; throws kPrecision when one does not fit exactly.
StoredCsr make_stored_csr(const matrix::CsrBlock& block, DType dtype);
// A copy of the block with its own value type.
StoredCsr make_stored_csr(const matrix::CsrBlock& block);

// obs and var hold the index as the first column "_index"; null gives names "cell_0", "gene_0", ...
// Throws kInvalidArgument when the parts do not fit together.
std::unique_ptr<RowStore> make_memory_store(StoredCsr rows,
                                            std::shared_ptr<arrow::Table> obs = nullptr,
                                            std::shared_ptr<arrow::Table> var = nullptr,
                                            std::string path = "memory",
                                            Processing processing = {});

}  // namespace cellfeed::format::memory
