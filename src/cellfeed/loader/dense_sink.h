// DenseSink: rows as a DenseBlock. Thread-safe: immutable.
#pragma once

#include "cellfeed/loader/batch_sink.h"

namespace cellfeed::loader {

class DenseSink final : public BatchSink {
 public:
  DenseSink(std::int64_t n_cols, DType dtype) : n_cols_(n_cols), dtype_(dtype) {}
  bool counts_entries() const override { return false; }
  std::int64_t plan_bytes(const Recycler& recycler, const Rows& rows) const override;
  matrix::Block begin(Recycler& recycler, const Rows& rows) const override;
  void take(SliceDecoder& decoder, matrix::Block& block) const override;
  std::int64_t finish(Recycler&, const Rows&, matrix::Block&) const override { return 0; }

 private:
  void scatter(SliceDecoder& decoder, const Piece& step, matrix::DenseBlock& block) const;

  std::int64_t n_cols_;
  DType dtype_;
};

}  // namespace cellfeed::loader
