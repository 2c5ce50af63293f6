// Tokens of single rows: what is a token, what is cut off, and what is refused. Orders, bins and
// draws are compared with numpy in tests/python/test_tokens.py.
#include "cellfeed/transform/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/transform/token_masking.h"

namespace cellfeed::transform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const matrix::GeneAxis kFiveGenes{{"a", "b", "c", "d", "e"}};

TokenOptions options_of(TokenOptions::Order order) {
  TokenOptions options;
  options.order = order;
  options.genes = {"e", "c", "z", "a", "d"};
  options.ids = {4, 5, 6, 7, 9};
  return options;
}

struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<float> values;
};

Tokens tokens_of(const TokenOptions& options, std::vector<float> values,
                 std::span<const std::uint8_t> keeps = {}, std::uint64_t key = 1) {
  const Tokenizer tokenizer(options, kFiveGenes);
  std::vector<std::int32_t> indices(values.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int32_t>(i);
  const Row row{
      indices.data(), values.data(), DType::kF32, static_cast<std::int32_t>(values.size()), 0, 17};
  const auto room = static_cast<std::size_t>(tokenizer.max_tokens(row.size));
  Tokens made{std::vector<std::int32_t>(room + 1, -7), std::vector<float>(room + 1, -7)};
  const auto n = static_cast<std::size_t>(
      tokenizer.tokenize(row, keeps, {key, key, key}, made.ids.data(), made.values.data()));
  EXPECT_LE(n, room);
  EXPECT_EQ(made.ids[room], -7);
  made.ids.resize(n);
  made.values.resize(n);
  return made;
}

TEST(Tokenizer, GenesOutsideTheVocabularyAndZerosAreNoTokens) {
  const auto ranked = tokens_of(options_of(TokenOptions::Order::kRank), {2, 9, 3, 0, 2});
  EXPECT_THAT(ranked.ids, ElementsAre(3, 5, 7, 4));  // c; then a and e, which tie
  EXPECT_THAT(ranked.values, ElementsAre(0, 3, 2, 2));
  const auto in_order = tokens_of(options_of(TokenOptions::Order::kValues), {2, 9, 3, 0, 2});
  EXPECT_THAT(in_order.ids, ElementsAre(3, 7, 5, 4));
}

TEST(Tokenizer, MediansDivideBeforeGenesAreRanked) {
  auto options = options_of(TokenOptions::Order::kRank);
  options.medians = {1, 8, 1, 1, 1};
  EXPECT_THAT(tokens_of(options, {2, 9, 3, 0, 2}).ids, ElementsAre(3, 7, 4, 5));
}

TEST(Tokenizer, AnEmptyCellHasTheClassTokenAlone) {
  auto options = options_of(TokenOptions::Order::kBins);
  EXPECT_THAT(tokens_of(options, {}).ids, ElementsAre(3));
  EXPECT_THAT(tokens_of(options, {0, 5, 0}).ids, ElementsAre(3));
  options.has_class_token = false;
  EXPECT_TRUE(tokens_of(options, {0, 5, 0}).ids.empty());
}

TEST(Tokenizer, GenesThatABatchDoesNotKeepAreNoTokens) {
  const std::vector<std::uint8_t> keeps = {0, 1, 1, 1, 1};
  EXPECT_THAT(tokens_of(options_of(TokenOptions::Order::kRank), {2, 9, 3, 0, 2}, keeps).ids,
              ElementsAre(3, 5, 4));
}

TEST(Tokenizer, WhatIsTooMuchIsCutOffAsAskedFor) {
  auto options = options_of(TokenOptions::Order::kValues);
  options.max_length = 3;
  EXPECT_THAT(tokens_of(options, {2, 9, 3, 1, 2}).ids, ElementsAre(3, 7, 5));
  options.truncation = TokenOptions::Truncation::kRandom;
  std::set<std::vector<std::int32_t>> drawn;
  for (std::uint64_t key = 0; key < 200; ++key)
    drawn.insert(tokens_of(options, {2, 9, 3, 1, 2}, {}, key).ids);
  EXPECT_EQ(drawn.size(), 6u);  // two of four genes
}

TEST(Tokenizer, OneValueIsInTheLastBin) {
  auto options = options_of(TokenOptions::Order::kBins);
  options.n_bins = 5;
  options.spreads_ties = false;
  EXPECT_THAT(tokens_of(options, {2}).values, ElementsAre(0, 4));
}

TEST(Tokenizer, ValuesThatAreNoExpressionAreNamed) {
  for (const float bad : {-1.0f, NAN, INFINITY, -INFINITY}) try {
      tokens_of(options_of(TokenOptions::Order::kRank), {1, bad});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("cell 17"));
    }
}

TEST(TokenMasking, ChoosesTheShareOfEachCell) {
  const TokenMasking masking({.fraction = 0.25}, {4, 5, 6});
  for (const std::int32_t n : {1, 2, 3, 10, 200}) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(n) + 1, 5);
    std::vector<float> values(ids.size(), 1);
    std::vector<std::int64_t> labels(ids.size());
    const TokenRow row{ids.data(), values.data(), labels.data(), nullptr};
    predict_nothing(row, labels.size());
    masking.hide(row, 1, n + 1, 99);
    const auto chosen = std::count_if(labels.begin(), labels.end(),
                                      [](std::int64_t label) { return label != kNoLabel; });
    EXPECT_EQ(chosen, std::max(1L, std::lrint(0.25 * n)));
    EXPECT_EQ(labels[0], kNoLabel);
  }
}

}  // namespace
}  // namespace cellfeed::transform
