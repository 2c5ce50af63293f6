// DenseRowDecoder: one stored dense row to a row of a dense batch, or to the entries of a sparse
// one. Thread-safe: const after construction; scratch memory is per thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/format/stored_values.h"

namespace cellfeed::format {

class DenseRowDecoder {
 public:
  // path and layer are for messages. Throws kUnsupported for more than 2^31-1 columns.
  DenseRowDecoder(std::string path, std::string layer, std::int64_t n_cols, StoredNumber value);

  // REQUIRES, as below: pieces that hold n_cols elements.
  // Entries of a sparse row: all elements but zeros. A negative zero is one, so nothing is lost.
  std::int64_t count_entries(std::span<const RowPiece> pieces) const;

  // Writes the entries from `place` on; returns how many. Throws kPrecision naming the row and the
  // value, kCorruptData where there are more than size.
  std::int32_t decode(std::int64_t row, std::span<const RowPiece> pieces, const CsrTarget& target,
                      std::int64_t place, std::int64_t size) const;
  // next: the row decoded next, asked for meanwhile. Throws kPrecision.
  void decode(std::int64_t row, std::span<const RowPiece> pieces, const DenseTarget& target,
              std::int64_t place, std::span<const RowPiece> next) const;

 private:
  void convert(std::int64_t row, const RowPiece& native, DType out, Casting casting, std::byte* to,
               UpcomingBytes upcoming, bool past_caches) const;

  std::string path_;
  std::string layer_;
  std::int64_t n_cols_;
  StoredNumber value_;
};

}  // namespace cellfeed::format
