// EncodedRows: rows encoded as a shard stores them, ready to be appended in order. Encoding is a
// pure function, so that many threads can encode slices of rows while one appends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::format::shard {

enum class Layout { kPacked, kDense };

// Indices are sorted and unique inside a row.
using matrix::CsrSlice;

struct EncodedRows {
  // The rows back to back. Packed: each record with its hash_record() behind it, in place of the
  // checksum that its row will have.
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> lengths;  // bytes of each row
  std::vector<std::uint32_t> nnz;      // non-zeros of each row
  // NaN and infinite values of each row; empty where they are not counted.
  std::vector<std::uint32_t> not_finite = {};
  // Of each cell, over all genes of its source; empty where they are not kept.
  std::vector<double> row_library_sizes = {};
  std::int64_t n_rows() const { return static_cast<std::int64_t>(lengths.size()); }
  void clear();  // keeps the memory
};

struct RowEncoding {
  Layout layout = Layout::kPacked;
  std::int64_t n_genes = 0;
  DType value_dtype = DType::kF32;  // as stored; dense is kF32
  // Stored position of each source gene, -1 for genes that are left out; empty: as they are. No two
  // genes share one.
  std::span<const std::int32_t> gene_position = {};
};

// Encodes all rows of the slice. Values become value_dtype exactly or throw kPrecision naming the
// row of the slice. Throws kOutOfRange for an index outside the genes, kInvalidArgument for indices
// that are not sorted and unique. spare: what it holds is dropped, and its memory used.
EncodedRows encode_rows(const CsrSlice& rows, const RowEncoding& encoding, EncodedRows spare = {});

}  // namespace cellfeed::format::shard
