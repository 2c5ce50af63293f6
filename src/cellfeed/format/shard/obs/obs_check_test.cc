// Fixed-width obs that Arrow takes for valid and readers must not: each forged here, column by
// column.
#include "cellfeed/format/shard/obs/obs_check.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/obs/fixed_obs_builder.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::format::shard {
namespace {

using cellfeed::testing::build_column;
using cellfeed::testing::error_of;
using ::testing::HasSubstr;
using Texts = std::vector<std::optional<std::string>>;

std::shared_ptr<arrow::Array> codes_of(std::vector<std::int8_t> codes, std::uint8_t valid) {
  const std::vector<std::uint8_t> bitmap{valid};
  const auto length = std::ssize(codes);
  return arrow::MakeArray(arrow::ArrayData::Make(
      arrow::int8(), length,
      {arrow::Buffer::FromVector(bitmap), arrow::Buffer::FromVector(std::move(codes))}));
}

std::string column_error(const std::shared_ptr<arrow::Array>& array,
                         const std::shared_ptr<arrow::KeyValueMetadata>& metadata = nullptr) {
  const auto field = arrow::field("type", array->type(), true, metadata);
  const auto batch = arrow::RecordBatch::Make(arrow::schema({field}), array->length(), {array});
  return error_of([&] { check_fixed_obs(*batch, "path"); }, ErrorKind::kCorruptData);
}

std::string categorical_error(std::vector<std::int8_t> codes, std::uint8_t valid, Texts texts) {
  const auto categories = build_column<arrow::StringBuilder>(
      0, std::ssize(texts), [&](auto i) { return texts[static_cast<std::size_t>(i)]; });
  return column_error(
      std::make_shared<arrow::DictionaryArray>(arrow::dictionary(arrow::int8(), arrow::utf8()),
                                               codes_of(std::move(codes), valid), categories));
}

TEST(FixedObs, WithSoundCodesAndCategoriesIsTaken) {
  EXPECT_EQ(categorical_error({0, 1, -1, 0}, 0b1011, {"T", "B"}), "no error");
  EXPECT_EQ(categorical_error({}, 0, {}), "no error");
}

TEST(FixedObs, WithCodesOutsideItsCategoriesIsRefused) {
  EXPECT_NE(categorical_error({0, 2, 1, 0}, 0b1111, {"T", "B"}), "no error");
  EXPECT_THAT(categorical_error({0, 5, 1, 0}, 0b1101, {"T", "B"}), HasSubstr("code 5 in row 1"));
  EXPECT_THAT(categorical_error({0, -2, 1, 0}, 0b1101, {"T", "B"}), HasSubstr("code -2 in row 1"));
  // Missing by one sign and present by the other.
  EXPECT_THAT(categorical_error({0, 1, 1, 0}, 0b1101, {"T", "B"}), HasSubstr("row 1"));
  EXPECT_NE(categorical_error({0, -1, 1, 0}, 0b1111, {"T", "B"}), "no error");
}

TEST(FixedObs, WithCategoriesThatAreMissingOrTwiceThereIsRefused) {
  EXPECT_THAT(categorical_error({0, 1}, 0b11, {"T", "B", "T"}), HasSubstr("twice"));
  EXPECT_THAT(categorical_error({0, 1}, 0b11, {"T", "B", std::nullopt}), HasSubstr("missing"));
}

TEST(FixedObs, WithOtherBytesThanBooleansIsRefused) {
  const auto bytes = build_column<arrow::UInt8Builder>(
      0, 3, [](auto i) { return std::optional(static_cast<std::uint8_t>(i)); });
  EXPECT_EQ(column_error(bytes), "no error");
  EXPECT_THAT(column_error(bytes, arrow::key_value_metadata({kDtypeKey}, {"bool"})),
              HasSubstr("byte 2 for a boolean in row 2"));
}

}  // namespace
}  // namespace cellfeed::format::shard
