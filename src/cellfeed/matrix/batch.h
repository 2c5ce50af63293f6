// Batch: what the model gets: expression of some cells, their obs values and where they came from.
// Move-only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cellfeed/matrix/buffer.h"
#include "cellfeed/matrix/csr.h"
#include "cellfeed/matrix/token_block.h"

namespace cellfeed::matrix {

// Row-major n_rows x n_cols.
struct DenseBlock {
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  ValueBuffer values;
};

using Block = std::variant<CsrBlock, DenseBlock, TokenBlock>;
inline std::int64_t block_columns(const Block& block) {
  return std::visit([](const auto& any) { return any.n_cols; }, block);
}
// Of the non-zeros, or of the whole matrix; null for tokens.
inline ValueBuffer* block_values(Block& block) {
  if (auto* csr = std::get_if<CsrBlock>(&block)) return &csr->values;
  if (auto* dense = std::get_if<DenseBlock>(&block)) return &dense->values;
  return nullptr;
}
inline const ValueBuffer* block_values(const Block& block) {
  return block_values(const_cast<Block&>(block));
}

// Entries of a sparse block; tokens that are not padding; 0 of a dense one.
std::int64_t block_nnz(const Block& block);

// One obs column of a batch: codes of a categorical (-1 = missing), or values of dtype (NaN =
// missing).
struct ObsValues {
  DType dtype = DType::kI64;
  Buffer<std::byte> bytes;  // n_rows elements of dtype; kBool is one byte each
};

struct Batch {
  Block x;
  std::vector<Block> others;             // further matrices of the same cells
  std::vector<std::int64_t> rows;        // global row numbers, in the batch's order
  std::vector<std::uint8_t> is_padding;  // empty when no row is padding
  std::vector<ObsValues> obs;            // one per column asked for
  std::int64_t n_rows() const { return static_cast<std::int64_t>(rows.size()); }
  // Number 0 is x.
  Block& block(std::size_t m) { return m == 0 ? x : others[m - 1]; }
  const Block& block(std::size_t m) const { return m == 0 ? x : others[m - 1]; }
};

}  // namespace cellfeed::matrix
