#include "cellfeed/convert/inputs/joined_var.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::arrow_array;
using testing::column_texts;
using ::testing::ElementsAre;

std::shared_ptr<arrow::Table> genes_with(const std::string& column, std::vector<std::string> genes,
                                         std::vector<std::int64_t> values) {
  arrow::StringBuilder names;
  arrow::Int64Builder numbers;
  return arrow::Table::Make(
      arrow::schema({arrow::field("_index", arrow::utf8()), arrow::field(column, arrow::int64())}),
      {arrow_array(names, std::move(genes)), arrow_array(numbers, std::move(values))});
}

TEST(JoinedVar, HasEachValueOfTheFirstSourceWithGeneAndColumn) {
  JoinedVar joined(4);
  joined.add_source(*genes_with("length", {"a", "b"}, {1, 2}), std::vector<std::int32_t>{0, 1},
                    "one");
  joined.add_source(*genes_with("number", {"b", "x", "a"}, {20, 90, 10}),
                    std::vector<std::int32_t>{1, -1, 0}, "two");
  joined.add_source(*genes_with("length", {"c", "b"}, {3, 99}), std::vector<std::int32_t>{2, 1},
                    "three");
  const auto table = joined.finish();
  EXPECT_THAT(table->schema()->field_names(), ElementsAre("_index", "length", "number"));
  EXPECT_THAT(column_texts(*table, "_index"), ElementsAre("a", "b", "c", "null"));
  EXPECT_THAT(column_texts(*table, "length"), ElementsAre("1", "2", "3", "null"));
  EXPECT_THAT(column_texts(*table, "number"), ElementsAre("10", "20", "null", "null"));
}

TEST(JoinedVar, OfOneSourceIsItsTable) {
  JoinedVar joined(2);
  const auto var = genes_with("length", {"a", "b"}, {1, 2});
  joined.add_source(*var, {}, "one");
  EXPECT_TRUE(joined.finish()->Equals(*var));
}

}  // namespace
}  // namespace cellfeed::convert
