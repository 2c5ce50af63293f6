// RowDecoder: one stored CSR row to sorted, unique, checked entries of the output type.
// Thread-safe: const after construction; scratch memory is per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/chunked/ranges.h"
#include "cellfeed/format/moved_rows.h"
#include "cellfeed/format/row_copy.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/stored_number.h"

namespace cellfeed::format {

using chunked::RowPiece;

class RowDecoder {
 public:
  // path and layer are for messages. Throws kUnsupported where index is not of integers.
  RowDecoder(std::string path, std::string layer, std::int64_t n_cols, StoredNumber index,
             StoredNumber value);

  // What decode does beside one row.
  struct Surroundings {
    std::span<const RowPiece> next_indices = {};  // of the row decoded next, asked for meanwhile
    std::span<const RowPiece> next_values = {};
    bool past_caches = false;  // rows go to memory by non-temporal stores, where they are copied
    ColumnPlaces places = {};  // columns move there; empty: they stay
  };

  // Writes the entries of one row; returns how many (fewer than stored when duplicates were
  // summed). Throws kCorruptData or kPrecision naming the row and the entry. REQUIRES: both piece
  // lists hold the same number of elements, and there is room for them.
  std::int32_t decode(std::int64_t row, std::span<const RowPiece> indices,
                      std::span<const RowPiece> values, DType out, Casting casting,
                      std::int32_t* out_indices, void* out_values,
                      const Surroundings& around) const;

 private:
  using IndexKernel = bool (*)(const RowPiece&, std::int64_t* previous, std::int32_t* out,
                               std::int64_t n_cols, std::int64_t* bad_position,
                               UpcomingBytes upcoming, bool past_caches);
  std::int32_t decode_native(std::int64_t row, std::span<const RowPiece> indices,
                             std::span<const RowPiece> values, DType out, Casting casting,
                             std::int32_t* out_indices, void* out_values,
                             const Surroundings& around) const;
  // Both copy the indices of a row, and say whether they ascend. Where they do not, or one is out
  // of range, the first leaves garbage and the second throws.
  bool copy_moved(std::span<const RowPiece> indices, std::int32_t* out,
                  const Surroundings& around) const;
  bool copy_indices(std::int64_t row, std::span<const RowPiece> indices, std::int32_t* out,
                    const Surroundings& around) const;
  [[noreturn]] void throw_bad_index(std::int64_t row, std::span<const RowPiece> indices,
                                    std::int64_t position) const;
  [[noreturn]] void throw_precision(std::int64_t row, const std::string& value, Casting casting,
                                    DType out) const;
  std::int32_t decode_unsorted(std::int64_t row, std::span<const RowPiece> values, DType out,
                               Casting casting, std::int64_t n, std::int32_t* out_indices,
                               void* out_values) const;

  std::string path_;
  std::string layer_;
  std::int64_t n_cols_;
  StoredNumber index_;
  StoredNumber value_;
  IndexKernel index_kernel_;
};

}  // namespace cellfeed::format
