#include "cellfeed/convert/inputs/table_union.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::arrow_array;
using testing::categorical_array;
using testing::column_texts;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<arrow::Table> table_of(const std::string& name,
                                       std::shared_ptr<arrow::Array> array) {
  return arrow::Table::Make(arrow::schema({arrow::field(name, array->type())}), {array});
}
template <typename Builder, typename T>
std::shared_ptr<arrow::Table> numbers(const std::string& name, std::vector<T> values) {
  Builder builder;
  return table_of(name, arrow_array(builder, values));
}
std::shared_ptr<arrow::Table> texts(std::vector<std::string> values) {
  return numbers<arrow::StringBuilder>("column", std::move(values));
}

// Each source's rows in the united table, and its type.
struct United {
  std::vector<std::vector<std::string>> rows;
  std::string type;
};
United unite(const std::vector<std::shared_ptr<arrow::Table>>& tables) {
  TableUnion united("obs");
  for (std::size_t i = 0; i < tables.size(); ++i)
    united.add_source(*tables[i]->Slice(0, 1), "file_" + std::to_string(i));
  united.finish();
  United result;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto table = united.conform(*tables[i], i);
    EXPECT_TRUE(table->ValidateFull().ok());
    EXPECT_TRUE(table->schema()->Equals(*united.schema()));
    result.rows.push_back(column_texts(*table, "column"));
  }
  result.type = united.schema()->field(0)->type()->ToString();
  return result;
}

TEST(TableUnion, KeepsTheCategoriesOfOneSourceInTheirOrder) {
  const auto table = table_of("column", categorical_array({2, -1, 0}, {"z", "unused", "a"}, true));
  TableUnion united("obs");
  united.add_source(*table, "file");
  united.finish();
  EXPECT_TRUE(united.conform(*table, 0)->Equals(*table));
}

TEST(TableUnion, SortsCategoriesOnWhichSourcesDiffer) {
  const std::vector<std::shared_ptr<arrow::Table>> tables{
      table_of("column", categorical_array({1, 0}, {"z", "a"})),
      table_of("column", categorical_array({0, 1, -1}, {"b", "z"}))};
  const auto united = unite(tables);
  TableUnion table("obs");
  for (const auto& part : tables) table.add_source(*part, "file");
  table.finish();
  const auto column = table.conform(*tables[0], 0)->column(0)->chunk(0);
  arrow::StringBuilder builder;
  EXPECT_TRUE(static_cast<const arrow::DictionaryArray&>(*column).dictionary()->Equals(
      arrow_array(builder, std::vector<std::string>{"a", "b", "z"})));
  EXPECT_THAT(united.rows[0], ElementsAre("a", "z"));
  EXPECT_THAT(united.rows[1], ElementsAre("b", "z", "null"));
}

TEST(TableUnion, PromotesNumbersWithoutLoss) {
  EXPECT_EQ(unite({numbers<arrow::Int8Builder, std::int8_t>("column", {-1}),
                   numbers<arrow::UInt16Builder, std::uint16_t>("column", {65535})})
                .type,
            "int32");
  EXPECT_EQ(unite({numbers<arrow::Int64Builder, std::int64_t>("column", {1}),
                   numbers<arrow::FloatBuilder, float>("column", {0.5f})})
                .type,
            "double");
  EXPECT_EQ(unite({numbers<arrow::Int16Builder, std::int16_t>("column", {1}),
                   numbers<arrow::FloatBuilder, float>("column", {0.5f})})
                .type,
            "float");
}

TEST(TableUnion, TextAndCategoriesOfTextAreText) {
  const auto united =
      unite({table_of("column", categorical_array({1, 0}, {"z", "a"})), texts({"b", "z"})});
  EXPECT_THAT(united.rows[0], ElementsAre("a", "z"));
  EXPECT_THAT(united.rows[1], ElementsAre("b", "z"));
}

TEST(TableUnion, AMissingColumnIsNull) {
  TableUnion united("obs");
  const auto with = table_of("column", categorical_array({0}, {"a"}));
  const auto without = numbers<arrow::Int64Builder, std::int64_t>("other", {7});
  united.add_source(*with, "with");
  united.add_source(*without, "without");
  united.finish();
  EXPECT_THAT(column_texts(*united.conform(*with, 0), "other"), ElementsAre("null"));
  const auto rows = united.conform(*without, 1);
  EXPECT_TRUE(rows->ValidateFull().ok());
  EXPECT_THAT(column_texts(*rows, "column"), ElementsAre("null"));
  EXPECT_THAT(column_texts(*rows, "other"), ElementsAre("7"));
}

TEST(TableUnion, RefusesTextWithNumbersNamingColumnAndFiles) {
  try {
    unite({texts({"a"}), numbers<arrow::Int64Builder, std::int64_t>("column", {1})});
    FAIL() << "text and numbers were united";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    for (const char* part : {"column", "file_0", "file_1"})
      EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace cellfeed::convert
