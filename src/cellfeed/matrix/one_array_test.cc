#include "cellfeed/matrix/one_array.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cellfeed::matrix {
namespace {

std::shared_ptr<arrow::Array> texts_of(const std::vector<std::string>& texts) {
  arrow::StringBuilder builder;
  for (const auto& text : texts) EXPECT_TRUE(builder.Append(text).ok());
  return *builder.Finish();
}

std::shared_ptr<arrow::Array> coded_texts_of(const std::vector<std::string>& texts) {
  return arrow::compute::DictionaryEncode(texts_of(texts))->make_array();
}

TEST(OneArrayTest, ASinglePieceIsNotCopied) {
  const auto piece = texts_of({"a", "b"});
  EXPECT_EQ(*one_array(arrow::ChunkedArray(piece)), piece);
}

TEST(OneArrayTest, PiecesAreInOrderAndNoneMakeAnEmptyArray) {
  const arrow::ChunkedArray column({texts_of({"a"}), texts_of({}), texts_of({"b", "c"})});
  EXPECT_TRUE((*one_array(column))->Equals(*texts_of({"a", "b", "c"})));
  const arrow::ChunkedArray none(arrow::ArrayVector{}, arrow::utf8());
  EXPECT_TRUE((*one_array(none))->Equals(*texts_of({})));
}

TEST(OneArrayTest, DictionariesOfPiecesAreUnited) {
  const arrow::ChunkedArray column({coded_texts_of({"b", "a"}), coded_texts_of({"c", "a"})});
  const auto array = one_array(column);
  const auto& coded = static_cast<const arrow::DictionaryArray&>(**array);
  EXPECT_TRUE(coded.dictionary()->Equals(*texts_of({"b", "a", "c"})));
  EXPECT_EQ(coded.GetValueIndex(2), 2);
  EXPECT_EQ(coded.GetValueIndex(3), 1);
}

// As Arrow's C interface hands on the empty middle of an array.
TEST(OneArrayTest, APieceWithoutRowsMayBeginBehindItsMemory) {
  auto data = arrow::ArrayData::Make(arrow::int64(), 0,
                                     {nullptr, std::make_shared<arrow::Buffer>(nullptr, 0)}, 0, 2);
  const auto numbers = *arrow::MakeArrayFromScalar(arrow::Int64Scalar(7), 3);
  const arrow::ChunkedArray column({numbers, arrow::MakeArray(data), numbers});
  EXPECT_EQ((*one_array(column))->length(), 6);
}

}  // namespace
}  // namespace cellfeed::matrix
