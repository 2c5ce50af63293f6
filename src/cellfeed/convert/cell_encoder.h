// CellEncoder: rows of the inputs as shards store them, on the stored gene axis.
// Thread-safe: encode(), give_back(). Lifetime: the sources outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/spares.h"
#include "cellfeed/convert/inputs/library_sizes.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/format/shard/encoded_rows.h"

namespace cellfeed::convert {

class CellEncoder {
 public:
  CellEncoder(const Sources& sources, format::shard::Layout layout, DType value_dtype,
              KeptTotals library_sizes = KeptTotals::kWhereNeeded);

  // gene_order: joined column of each stored gene. Once, before encode().
  void set_gene_order(std::vector<std::int64_t> gene_order);
  // Joined column of each stored gene; empty: as joined.
  const std::vector<std::int64_t>& gene_order() const { return gene_order_; }
  std::vector<std::string> gene_names() const;  // as stored

  // The type is that of shards which are there, and not chosen for these sources.
  void set_type_of_shards() { is_type_of_shards_ = true; }
  DType value_dtype() const { return value_dtype_; }
  format::shard::Layout layout() const { return layout_; }
  // Of a dense row; 0 where rows are packed.
  std::int64_t dense_row_bytes() const;
  bool keeps_library_sizes() const { return library_sizes_.are_kept(); }
  // Of the source that loses most: columns that no shard has.
  std::int64_t n_genes_left_out() const;

  // Throws what reading and encoding throw, naming the source and its row.
  format::shard::EncodedRows encode(std::int64_t source, std::span<const std::int64_t> rows);
  // Rows of encode() that were written: their memory is used again.
  void give_back(format::shard::EncodedRows rows) { spares_.give(std::move(rows)); }

 private:
  format::shard::EncodedRows encode_exactly(std::int64_t source,
                                            std::span<const std::int64_t> rows);
  bool holds(double value) const;
  // Throws kPrecision naming the first value that does not fit what is written.
  void refuse_misfit(std::int64_t source, std::span<const std::int64_t> rows);
  void place_genes();

  const Sources& sources_;
  LibrarySizes library_sizes_;
  format::shard::Layout layout_;
  DType value_dtype_;
  bool is_type_of_shards_ = false;
  std::vector<std::int64_t> gene_order_;
  // Per source: its column -> stored position; null where they are the same. Shared between sources
  // with the same axis.
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> positions_;
  PiecePool pieces_;
  Spares<format::shard::EncodedRows> spares_;
};

}  // namespace cellfeed::convert
