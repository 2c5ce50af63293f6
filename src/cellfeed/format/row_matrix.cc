// What arrays say of their matrix.
#include "cellfeed/format/row_matrix.h"

#include <algorithm>

namespace cellfeed::format {

std::vector<chunked::CachedArray> cached_arrays(const RowMatrix& matrix) {
  std::vector<chunked::CachedArray> cached;
  for (const StoredArray* array : matrix.arrays())
    cached.push_back(array->is_mapped()
                         ? chunked::CachedArray{}
                         : chunked::CachedArray{array->n_chunks(), array->chunk_bytes()});
  return cached;
}

void describe_matrix(const RowMatrix& matrix, StoreInfo& info) {
  const StoredArray& values = *matrix.arrays().front();
  info.n_rows = matrix.n_rows();
  info.n_cols = matrix.n_cols();
  info.value_dtype = values.dtype();
  info.compression = values.compression();
  matrix.describe(info);
  for (const StoredArray* array : matrix.arrays()) {
    if (!array->is_mapped()) info.inflated_bytes += array->n_chunks() * array->chunk_bytes();
    info.scratch_bytes = std::max(info.scratch_bytes, array->inflating_bytes());
  }
}

}  // namespace cellfeed::format
