#include "cellfeed/format/memory/table_content.h"

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace cellfeed::format::memory {
namespace {

using Numbers = std::vector<std::optional<std::int32_t>>;

std::shared_ptr<arrow::Array> array_of(const Numbers& numbers) {
  arrow::Int32Builder builder;
  for (const auto& number : numbers)
    EXPECT_TRUE((number ? builder.Append(*number) : builder.AppendNull()).ok());
  return *builder.Finish();
}

std::uint64_t content_of_pieces(const arrow::ArrayVector& pieces, const char* name = "x") {
  return table_content(*arrow::Table::Make(arrow::schema({arrow::field(name, pieces[0]->type())}),
                                           {std::make_shared<arrow::ChunkedArray>(pieces)}));
}

TEST(TableContentTest, EveryValueNameAndTypeCounts) {
  const auto longer = *array_of({1, 2, 0, 3})->View(arrow::date32());
  const std::set<std::uint64_t> contents{content_of_pieces({array_of({1, 2, 0, 3})}),
                                         content_of_pieces({array_of({1, 2, 0, 4})}),
                                         content_of_pieces({array_of({1, 2, {}, 3})}),
                                         content_of_pieces({array_of({1, {}, 2, 3})}),
                                         content_of_pieces({array_of({1, 2, 0, 3})}, "y"),
                                         content_of_pieces({longer}),
                                         content_of_pieces({array_of({1, 2, 0})}),
                                         content_of_pieces({array_of({})})};
  EXPECT_EQ(contents.size(), 8u);
}

TEST(TableContentTest, PiecesAndWhatLiesUnderMissingValuesDoNot) {
  const auto whole = array_of({1, {}, 3});
  EXPECT_EQ(content_of_pieces({whole}), content_of_pieces({whole->Slice(0, 1), whole->Slice(1)}));
  auto under = whole->data()->Copy();
  under->buffers[1] = array_of({1, 99, 3})->data()->buffers[1];
  EXPECT_EQ(content_of_pieces({whole}), content_of_pieces({arrow::MakeArray(under)}));
}

}  // namespace
}  // namespace cellfeed::format::memory
