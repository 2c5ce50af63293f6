// PackedFetch: rows of a PackedStore on their way: those that are kept from their segments, the
// others from the source, of which it keeps what it decodes. Thread-safe as FetchedRows says.
// Lifetime: source and log outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cellfeed/convert/cache/fetched_parts.h"
#include "cellfeed/convert/cache/packed_log.h"
#include "cellfeed/format/dense_row.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/encoded_rows.h"

namespace cellfeed::convert {

class PackedFetch final : public FetchedParts {
 public:
  // Numbers of parts.
  static constexpr std::int64_t kOfSource = 0, kKept = 1;

  // rows: as asked for. segments: of each row that is kept.
  PackedFetch(const format::RowStore& source, PackedLog& log, std::span<const std::int64_t> rows,
              std::vector<std::int64_t> segments, std::vector<FetchedPart> parts)
      : FetchedParts(std::move(parts)),
        source_(source),
        log_(log),
        rows_(rows.begin(), rows.end()),
        segments_(std::move(segments)) {}

  // Where some rows come from a source that has them dense.
  bool is_dense() const override;

 private:
  // An upper bound of the entries of each row of a part.
  struct Sizes {
    std::once_flag are_set;
    std::vector<std::int64_t> of_rows;
  };
  struct Claimed {
    std::vector<std::int64_t> of_part;
    format::shard::RowEncoding encoding;
  };
  void decode_part(const FetchedPart& part, std::int64_t first, std::int64_t last,
                   const format::CsrTarget& target) const override;
  void decode_part_dense(const FetchedPart& part, std::int64_t first, std::int64_t last,
                         const format::DenseTarget& target) const override;
  const std::vector<std::int64_t>& sizes_of(const FetchedPart& part) const;
  format::DenseRowDecoder decoder_of(const format::DenseTarget& target) const;
  // Of the source's part, those that nobody keeps yet: what encode makes of them.
  void keep(const FetchedPart& part, std::int64_t first, std::int64_t last,
            const std::function<format::shard::EncodedRows(const Claimed&)>& encode) const;
  // Decoded once more to what holds the stored values.
  format::shard::EncodedRows encode_again(const FetchedPart& part, const Claimed& rows) const;
  format::shard::EncodedRows encode_dense(const FetchedPart& part, const Claimed& rows,
                                          const format::DenseTarget& target) const;
  void decode_row_from_source(const FetchedPart& part, std::int64_t i,
                              const format::CsrTarget& target) const;

  const format::RowStore& source_;
  PackedLog& log_;
  const std::vector<std::int64_t> rows_;
  const std::vector<std::int64_t> segments_;
  mutable std::array<Sizes, 2> sizes_;  // by the number of the part
};

}  // namespace cellfeed::convert
