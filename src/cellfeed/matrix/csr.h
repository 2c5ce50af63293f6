// CsrBlock: rows of a sparse matrix in memory; indices are sorted and unique inside a row.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::matrix {

// Values of one of the types a reader decodes to.
using ValueBuffer =
    std::variant<Buffer<float>, Buffer<double>, Buffer<std::int32_t>, Buffer<std::int64_t>>;
// Throws kInvalidArgument for another type.
ValueBuffer make_value_buffer(DType dtype, std::size_t size,
                              std::shared_ptr<BufferMemory> memory = nullptr);
DType value_buffer_dtype(const ValueBuffer& values);
void* value_buffer_data(ValueBuffer& values);
const void* value_buffer_data(const ValueBuffer& values);

struct CsrBlock {
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  Buffer<std::int64_t> indptr;   // n_rows + 1
  Buffer<std::int32_t> indices;  // nnz
  ValueBuffer values;            // nnz
};

// Consecutive rows of a sparse matrix. Lifetime: a view; everything outlives the call it is given
// to.
struct CsrSlice {
  // n_rows + 1: row i holds entries [indptr[i], indptr[i + 1]) of indices and values.
  std::span<const std::int64_t> indptr;
  const std::int32_t* indices = nullptr;
  const void* values = nullptr;  // of dtype
  DType dtype = DType::kF32;
  std::int64_t n_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
};

// Moves rows that leave gaps close to one another: row i holds counts[i] entries from indptr[i] on,
// and from its new indptr[i] on when this returns; its last is the number of entries. values: of
// value_bytes each. REQUIRES: rows ascend and do not overlap.
void close_gaps(std::span<std::int64_t> indptr, std::span<const std::int32_t> counts,
                std::int32_t* indices, void* values, std::size_t value_bytes);

// Leaves of the buffers what rows hold. REQUIRES: indptr is complete.
void cut_to_rows(CsrBlock& block);

// Columns whose names were not theirs alone, with these names.
using RepeatedNames = std::map<std::int64_t, std::string>;

// Names of the columns, in order. Unique once opened by a collection.
struct GeneAxis {
  std::vector<std::string> names;
  // What names were before repeated ones were numbered, of those that kept theirs too.
  RepeatedNames repeated{};
  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  // These columns, in their order. REQUIRES: they are inside.
  GeneAxis take(std::span<const std::int64_t> columns) const;
};

}  // namespace cellfeed::matrix
