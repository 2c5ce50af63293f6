// CsrSink: rows as a CsrBlock. Thread-safe: immutable.
#pragma once

#include "cellfeed/loader/batch_sink.h"

namespace cellfeed::loader {

class CsrSink final : public BatchSink {
 public:
  CsrSink(std::int64_t n_cols, DType dtype) : n_cols_(n_cols), dtype_(dtype) {}
  bool counts_entries() const override { return true; }
  std::int64_t plan_bytes(const Recycler& recycler, const Rows& rows) const override;
  matrix::Block begin(Recycler& recycler, const Rows& rows) const override;
  bool takes_whole(const SliceDecoder& decoder, const Piece& piece) const override;
  void take(SliceDecoder& decoder, const Piece& step, matrix::Block& block) const override;
  void finish(Recycler& recycler, const Rows& rows, matrix::Block& block) const override;

  // For sinks that take rows as these blocks first.
  matrix::CsrBlock begin_csr(Recycler& recycler, const Rows& rows) const;
  void take_csr(SliceDecoder& decoder, const Piece& step, matrix::CsrBlock& block) const;
  void finish_csr(const Rows& rows, matrix::CsrBlock& block) const;

 private:
  void take_past_caches(SliceDecoder& decoder, const Piece& step, matrix::CsrBlock& block) const;

  std::int64_t n_cols_;
  DType dtype_;
};

}  // namespace cellfeed::loader
