// TokenSink: rows as a TokenBlock. What is drawn for a cell depends on (seed, epoch, position in
// the order) alone, so tokens are the same for any number of threads, workers and ranks; a
// selection of genes also depends on which cells a batch has. Cells that only fill up a batch
// predict nothing, and do not choose genes. Thread-safe: immutable.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cellfeed/loader/csr_sink.h"
#include "cellfeed/loader/token_output.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::loader {

class TokenSink final : public BatchSink {
 public:
  // As CsrSink; throws what Tokenizer and TokenMasking throw.
  TokenSink(const TokenOutput& output, const RowPipeline& pipeline, int threads);
  const transform::Tokenizer& tokenizer() const { return tokenizer_; }
  bool counts_entries() const override { return selects(); }
  bool takes_by_position() const override { return selects() && csr_.takes_by_position(); }
  std::int64_t plan_bytes(const Recycler& recycler, const Rows& rows) const override;
  matrix::Block begin(Recycler& recycler, const Rows& rows) const override;
  void take(SliceDecoder& decoder, matrix::Block& block) const override;
  std::int64_t finish(Recycler& recycler, const Rows& rows, matrix::Block& block) const override;

 private:
  class Keys;
  bool selects() const { return selection_ != GeneSelection::kAll; }
  std::int64_t width_of(const Rows& rows) const;
  matrix::TokenTargets targets() const;
  void write(const sampling::BatchPlan& plan, const Keys& keys, std::int64_t position,
             const transform::Row& row, std::span<const std::uint8_t> keeps,
             matrix::TokenBlock& block) const;
  void write_selected(const sampling::BatchPlan& plan, matrix::TokenBlock& block) const;
  // Of each column whether the batch keeps it.
  std::vector<std::uint8_t> select_genes(const sampling::BatchPlan& plan,
                                         const matrix::CsrBlock& rows) const;

  transform::Tokenizer tokenizer_;
  std::optional<transform::TokenMasking> masking_;
  GeneSelection selection_;
  std::int64_t n_genes_;
  bool pads_to_max_length_;
  CsrSink csr_;  // what a selection looks at
};

}  // namespace cellfeed::loader
