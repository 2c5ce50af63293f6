// TokenMasking: hides some tokens of a cell, so that a model can be trained to predict them.
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cellfeed::transform {

struct MaskingOptions {
  // Of the genes of a cell: round(fraction * n), to the nearest, half to even; at least one.
  double fraction = 0.15;
  // The gene is hidden and predicted; else its value is.
  bool predicts_genes = true;
  // Of genes that are chosen, in turn: those whose token becomes the mask, and those that become
  // any gene of the vocabulary. The rest stays as it is, and is predicted all the same.
  double mask_share = 0.8;
  double random_share = 0.1;
  float mask_value = -1;  // what hides a value
  // Values are classes, such as bins, and become labels too.
  bool values_are_classes = false;
};

// Tokens of one cell, and what is predicted of them; null where that is nothing.
struct TokenRow {
  std::int32_t* ids = nullptr;
  float* values = nullptr;
  std::int64_t* labels = nullptr;
  float* target_values = nullptr;
};

class TokenMasking {
 public:
  // ids: of the genes of the vocabulary. Throws kInvalidArgument for shares that make no sense.
  TokenMasking(MaskingOptions options, std::vector<std::int32_t> ids);
  const MaskingOptions& options() const { return options_; }
  // Hides some of the tokens [first, end) of a row.
  void hide(const TokenRow& row, std::int32_t first, std::int32_t end, std::uint64_t key) const;

 private:
  MaskingOptions options_;
  std::vector<std::int32_t> ids_;
};

// What stands where nothing is predicted: torch's ignore_index, and NaN.
inline constexpr std::int64_t kNoLabel = -100;
void predict_nothing(const TokenRow& row, std::size_t n);

}  // namespace cellfeed::transform
