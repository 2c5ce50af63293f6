// DecodedRows: some rows of a store, decoded into memory of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::collection {

struct DecodedRows {
  std::vector<std::int64_t> place;   // where each row begins
  std::vector<std::int32_t> counts;  // entries of each
  matrix::Buffer<std::int32_t> columns;
  matrix::Buffer<std::byte> values;

  std::size_t size() const { return counts.size(); }
  // T: of the dtype that they were decoded to.
  template <typename T>
  std::span<const T> values_of(std::size_t row) const {
    return {reinterpret_cast<const T*>(values.data()) + place[row],
            static_cast<std::size_t>(counts[row])};
  }
};

inline DecodedRows decode_rows(const format::RowStore& store, std::span<const std::int64_t> rows,
                               DType dtype, Casting casting) {
  const auto fetched = format::fetch_rows(store, rows);
  DecodedRows decoded;
  decoded.place.resize(rows.size() + 1);
  decoded.counts.resize(rows.size());
  fetched->sizes(std::span(decoded.place).subspan(1));
  std::partial_sum(decoded.place.begin(), decoded.place.end(), decoded.place.begin());
  const auto capacity = static_cast<std::size_t>(decoded.place.back());
  decoded.columns.reset(capacity);
  decoded.values.reset(capacity * dtype_bytes(dtype));
  fetched->decode(0, fetched->n_rows(),
                  {decoded.place.data(), decoded.columns.data(), decoded.values.data(), dtype,
                   casting, decoded.counts.data(), false});
  return decoded;
}

}  // namespace cellfeed::collection
