// RowReader: consecutive or chosen rows of one store as one CSR piece, in a type that holds the
// stored values exactly. Thread-safe: const; each call writes to the caller's piece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/spares.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::convert {

// The type that batches and pieces decode a stored type to without loss: int32, int64, float32 or
// float64. uint64 goes through int64, checked value by value.
DType exact_decode_dtype(DType stored);

// Rows of a store: row i holds entries [indptr[i], indptr[i + 1]); sorted, unique, in the store's
// columns.
struct CsrPiece {
  std::vector<std::int64_t> indptr;
  matrix::Buffer<std::int32_t> indices;
  matrix::Buffer<std::byte> values;
  DType dtype = DType::kF32;
  std::int64_t n_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  std::int64_t nnz() const { return indptr.empty() ? 0 : indptr.back(); }
};

// Calls visit(gene, value) of each entry whose column has a gene; empty map: columns are genes.
template <typename Visit>
void for_each_entry(const CsrPiece& piece, std::span<const std::int32_t> gene_map, Visit&& visit) {
  dispatch_dtype(piece.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* values = reinterpret_cast<const T*>(piece.values.data());
    for (std::int64_t i = 0; i < piece.nnz(); ++i) {
      const std::int32_t column = piece.indices[i];
      const std::int32_t gene = gene_map.empty() ? column : gene_map[column];
      if (gene >= 0) visit(gene, values[i]);
    }
  });
}

// Replaces what piece held; its buffers are used again.
void read_rows(const format::RowStore& store, std::span<const std::int64_t> rows, CsrPiece& piece);
// As a type of batches: kF32, kF64, kI32 or kI64.
void read_rows(const format::RowStore& store, std::span<const std::int64_t> rows, DType dtype,
               Casting casting, CsrPiece& piece);
void read_rows(const format::RowStore& store, std::int64_t begin, std::int64_t end,
               CsrPiece& piece);

// Column c becomes column_map[c] and is dropped where that is -1; rows are sorted again. No two
// columns share a place.
void renumber_columns(CsrPiece& piece, std::span<const std::int32_t> column_map,
                      std::int64_t n_cols);

// Pieces whose buffers are used again. Thread-safe.
class PiecePool {
 public:
  // Gives the piece back to the pool when it is destroyed.
  class Lease {
   public:
    Lease(PiecePool& pool, std::unique_ptr<CsrPiece> piece)
        : pool_(&pool), piece_(std::move(piece)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(piece_, other.piece_);
      return *this;
    }
    ~Lease();
    CsrPiece& operator*() const { return *piece_; }
    CsrPiece* operator->() const { return piece_.get(); }

   private:
    PiecePool* pool_;
    std::unique_ptr<CsrPiece> piece_;
  };
  Lease acquire();

 private:
  Spares<std::unique_ptr<CsrPiece>> spares_;
};

}  // namespace cellfeed::convert
