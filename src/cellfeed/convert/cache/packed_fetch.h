// PackedFetch: rows of a PackedStore on their way: those that are kept from their segments, the
// others from the source, of which it keeps what it decodes. Thread-safe as FetchedRows says.
// Lifetime: source and log outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cellfeed/convert/cache/fetched_parts.h"
#include "cellfeed/convert/cache/packed_log.h"
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

 private:
  void decode_part(const FetchedPart& part, std::int64_t first, std::int64_t last,
                   const format::CsrSink& sink) const override;
  void keep(const FetchedPart& part, std::int64_t first, std::int64_t last,
            const format::CsrSink& sink) const;
  // Of rows of the source's part, decoded once more to what holds the stored values.
  format::shard::EncodedRows encode_again(const FetchedPart& part,
                                          std::span<const std::int64_t> wanted,
                                          const format::shard::RowEncoding& encoding) const;
  void decode_row_from_source(const FetchedPart& part, std::int64_t i,
                              const format::CsrSink& sink) const;

  const format::RowStore& source_;
  PackedLog& log_;
  const std::vector<std::int64_t> rows_;
  const std::vector<std::int64_t> segments_;
  mutable std::once_flag sized_;
  mutable std::vector<std::int64_t> sizes_;  // of the rows of the source's part; by sized_
};

}  // namespace cellfeed::convert
