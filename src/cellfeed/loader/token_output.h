// TokenOutput: what a loader of tokens is asked for. Immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cellfeed/transform/token_masking.h"
#include "cellfeed/transform/tokenizer.h"

namespace cellfeed::loader {

// Which genes a batch keeps, before cells become tokens.
enum class GeneSelection {
  kAll,
  // Those with the largest sums over the cells of the batch, of equal ones the smaller number.
  kMostExpressed,
  // Some of those that any cell of the batch has, drawn for the step of the batch.
  kRandomExpressed
};

// Shared from this for the reason given in sampling/strategy.h.
struct TokenOutput : std::enable_shared_from_this<TokenOutput> {
  transform::TokenOptions tokenizer{};
  std::optional<transform::MaskingOptions> masking{};
  GeneSelection selection = GeneSelection::kAll;
  std::int64_t n_genes = 0;         // that a selection keeps
  bool pads_to_max_length = false;  // else to the longest cell of the batch
};

}  // namespace cellfeed::loader
