// Tokenizer: a cell as a sequence of genes and their values, for models that read cells so. Ranked
// as Geneformer does it (Theodoris et al. 2023), with values in bins as scGPT does it (Cui et al.
// 2024), or with the values themselves.
//
// A gene is a token where its value is larger than 0 and the vocabulary has it. Values must be
// finite and not negative. Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/transform/simd/token_values.h"
#include "cellfeed/transform/transform.h"

namespace cellfeed::transform {

// Numbers of a vocabulary that stand for no gene.
inline constexpr std::int32_t kPadToken = 0;
inline constexpr std::int32_t kMaskToken = 2;
inline constexpr std::int32_t kClassToken = 3;
inline constexpr std::int32_t kFirstGeneToken = 4;
// Of a cell: more than any vocabulary has genes. What is padded to a larger max_length would not
// fit into memory.
inline constexpr std::int32_t kMostTokens = 1 << 20;

struct TokenOptions {
  enum class Order { kRank, kBins, kValues };
  // Which genes go where a cell has more than there is room for, of kBins and kValues: the ones
  // with the smallest values, of equal ones the later; or some drawn at random.
  enum class Truncation { kSmallest, kRandom };

  Order order = Order::kRank;
  // The vocabulary: names and their numbers.
  std::vector<std::string> genes{};
  std::vector<std::int32_t> ids{};
  // Of kRank: what values are divided by, one of each of genes; empty: nothing.
  std::vector<float> medians{};
  std::int32_t max_length = 2048;  // tokens of a cell at most, the class token among them
  bool has_class_token = true;
  std::int32_t n_bins = 51;  // of kBins: bin 0 is for no expression, so values are 1 to n_bins - 1
  // Of kBins, where an edge is the same as several others: bins of values on it are drawn among
  // those that it borders on, as scGPT does it; or all are the last of them.
  bool spreads_ties = true;
  Truncation truncation = Truncation::kSmallest;
};

// What is drawn for a cell depends on these: random bits of it alone.
struct TokenKeys {
  std::uint64_t masking = 0;
  std::uint64_t truncation = 0;
  std::uint64_t ties = 0;
};

class Tokenizer {
 public:
  // genes: columns of the rows. Throws kInvalidArgument for options that make no sense, and
  // kNoSuchKey where the vocabulary has none of the genes.
  Tokenizer(TokenOptions options, const matrix::GeneAxis& genes);
  const TokenOptions& options() const { return options_; }
  // Tokens of a row of so many entries, at most.
  std::int64_t max_tokens(std::int64_t entries) const;
  // Of a column, 0 where the vocabulary does not have it.
  std::int32_t id_of(std::int32_t column) const { return ids_[column]; }
  std::int64_t n_cols() const { return static_cast<std::int64_t>(ids_.size()); }
  // Writes the tokens of a row of floats; returns how many. keeps: of each column whether it is
  // used, empty for all. REQUIRES: room for max_tokens(row.size).
  std::int32_t tokenize(const Row& row, std::span<const std::uint8_t> keeps, const TokenKeys& keys,
                        std::int32_t* ids, float* values) const;

 private:
  // Values of the genes that are tokens, in the order of the row, divided by medians; their ids are
  // the thread's.
  std::span<const float> collect(const Row& row, std::span<const std::uint8_t> keeps) const;
  // Of the genes that were collected; return how many are written.
  std::size_t write_ranked(std::span<const float> collected, std::int32_t* ids,
                           float* values) const;
  std::size_t write_in_order(std::span<const float> collected, const TokenKeys& keys,
                             std::int32_t* ids, float* values) const;
  std::size_t room() const {
    return static_cast<std::size_t>(options_.max_length - (options_.has_class_token ? 1 : 0));
  }

  TokenOptions options_;
  std::vector<std::int32_t> ids_;     // of each column
  std::vector<TokenColumn> columns_;  // the same with medians; empty without them
  bool has_all_columns_ = false;      // the vocabulary
};

}  // namespace cellfeed::transform
