// CsrSink: rows as a CsrBlock. Thread-safe: immutable but for memory that is used again and what it
// learns of how much is kept.
#pragma once

#include <atomic>

#include "cellfeed/loader/batch_sink.h"
#include "cellfeed/loader/kept_rows.h"

namespace cellfeed::loader {

class CsrSink final : public BatchSink {
 public:
  // threads: those that decode.
  CsrSink(const RowPipeline& pipeline, DType dtype, int threads);
  bool counts_entries() const override { return true; }
  bool takes_by_position() const override { return drops_columns_; }
  std::int64_t plan_bytes(const Recycler& recycler, const Rows& rows) const override;
  matrix::Block begin(Recycler& recycler, const Rows& rows) const override;
  void take(SliceDecoder& decoder, matrix::Block& block) const override;
  std::int64_t finish(Recycler& recycler, const Rows& rows, matrix::Block& block) const override;

  // For sinks that take rows as these blocks first.
  matrix::CsrBlock begin_csr(Recycler& recycler, const Rows& rows) const;
  void take_csr(SliceDecoder& decoder, matrix::CsrBlock& block) const;
  std::int64_t finish_csr(Recycler& recycler, const Rows& rows, matrix::CsrBlock& block) const;

 private:
  void take_step(SliceDecoder& decoder, const Piece& step, matrix::CsrBlock& block) const;
  void take_past_caches(SliceDecoder& decoder, const Piece& step, matrix::CsrBlock& block) const;
  void take_kept(SliceDecoder& decoder, matrix::CsrBlock& block) const;
  // Entries that a batch has room for from the beginning.
  std::int64_t room_of(const Rows& rows) const;
  std::int64_t bytes_of(const Recycler& recycler, std::int64_t nnz) const;
  std::int64_t make_room(Recycler& recycler, const Rows& rows, matrix::CsrBlock& block) const;

  std::int64_t n_cols_;
  DType dtype_;
  // Rows lose entries, so that where one begins is known once those before it are decoded.
  bool drops_columns_;
  // Of the entries of a batch those that are kept, at most so far; at first a guess.
  mutable std::atomic<double> kept_share_;
  std::unique_ptr<KeptRowsPool> kept_;
};

}  // namespace cellfeed::loader
