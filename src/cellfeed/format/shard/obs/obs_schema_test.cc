// Obs as shards keep it: types, categories of several pieces, origins.
#include "cellfeed/format/shard/obs/obs_schema.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/obs/obs_file_writer.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

using cellfeed::testing::build_column;
using cellfeed::testing::row_numbers;
using cellfeed::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<arrow::DataType> stored_type(const std::shared_ptr<arrow::DataType>& type) {
  return stored_obs_schema(*arrow::schema({arrow::field("x", type)}), "a.h5ad")
      ->GetFieldByName("x")
      ->type();
}

TEST(ObsSchema, KeepsTypesAsShardsDo) {
  EXPECT_EQ(stored_type(arrow::int8())->ToString(), "int8");
  EXPECT_EQ(stored_type(arrow::float16())->ToString(), "float");
  EXPECT_EQ(stored_type(arrow::large_utf8())->ToString(), "string");
  EXPECT_EQ(stored_type(arrow::null())->ToString(), "string");
  EXPECT_TRUE(stored_type(arrow::dictionary(arrow::int8(), arrow::large_utf8(), true))
                  ->Equals(*arrow::dictionary(arrow::int32(), arrow::utf8(), true)));
  EXPECT_TRUE(stored_type(arrow::dictionary(arrow::int8(), arrow::int16()))
                  ->Equals(*arrow::dictionary(arrow::int32(), arrow::int16())));
}

TEST(ObsSchema, RefusesNestedColumns) {
  try {
    stored_type(arrow::list(arrow::int8()));
    ADD_FAILURE() << "a list was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'x'"), HasSubstr("a.h5ad")));
  }
}

std::shared_ptr<arrow::Table> table_of(const std::string& column,
                                       const std::shared_ptr<arrow::Array>& values) {
  const auto index = build_column<arrow::StringBuilder>(
      0, values->length(), [](auto i) { return std::optional(std::to_string(i)); });
  return arrow::Table::Make(
      arrow::schema({arrow::field("_index", arrow::utf8()), arrow::field(column, values->type())}),
      {index, values}, values->length());
}

std::shared_ptr<arrow::Array> numbered_texts(std::int64_t begin, std::int64_t end) {
  return build_column<arrow::StringBuilder>(
      begin, end, [](auto i) { return std::optional(fmt::format("c{}", i)); });
}

std::shared_ptr<arrow::Array> numbered_categories(std::int64_t begin, std::int64_t end) {
  const auto codes = build_column<arrow::Int32Builder>(
      0, end - begin, [](auto i) { return std::optional(static_cast<std::int32_t>(i)); });
  return *arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int32(), arrow::utf8()),
                                             codes, numbered_texts(begin, end));
}

// Writes tables of one schema as one shard and opens it.
std::unique_ptr<RowStore> store_of(const std::string& dir,
                                   const std::vector<std::shared_ptr<arrow::Table>>& tables) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tables.size(); ++i) names.push_back("source" + std::to_string(i));
  cellfeed::testing::ShardFixture fixture;
  fixture.n_cells = 0;
  auto journal = PartialManifest::start(dir, "plan");
  const auto head = cellfeed::testing::fixture_head(dir, fixture);
  ShardSpec spec;
  spec.dir = dir;
  spec.cells.n_genes = fixture.n_genes;
  spec.obs_schema = stored_obs_schema(*tables[0]->schema(), names[0]);
  ShardWriter writer(spec);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::int64_t n = tables[i]->num_rows();
    auto rows = cellfeed::testing::encode_fixture_rows(fixture, 0, n);
    writer.append(rows);
    writer.append_obs(conform_obs(tables[i], spec.obs_schema, names[i], row_numbers(0, n)));
  }
  journal.add(writer.finish());
  journal.commit(head);
  return std::move(open_shards(dir, {})[0]);
}

TEST(ObsOfSeveralSources, UnitesCategoriesInOrderOfAppearance) {
  TempDir dir;
  const auto store = store_of(dir.path(), {table_of("x", numbered_categories(5, 8)),
                                           table_of("x", numbered_categories(3, 7))});
  const auto column = store->obs_column("x");
  EXPECT_THAT(matrix::category_texts(column), ElementsAre("c5", "c6", "c7", "c3", "c4"));
  const auto* codes = static_cast<const std::int8_t*>(column.values);
  EXPECT_THAT(std::vector<int>(codes, codes + 7), ElementsAre(0, 1, 2, 3, 4, 0, 1));
  EXPECT_THAT(matrix::category_texts(store->obs_column("_source_file")),
              ElementsAre("source0", "source1"));
}

TEST(ObsOfSeveralSources, TakesTheNarrowestCodesThatHoldAllCategories) {
  for (const auto& [n, dtype] :
       {std::pair{127, DType::kI8}, std::pair{128, DType::kI16}, std::pair{32768, DType::kI32}}) {
    TempDir dir;
    const auto store = store_of(dir.path(), {table_of("x", numbered_categories(0, 100)),
                                             table_of("x", numbered_categories(50, n))});
    const auto column = store->obs_column("x");
    EXPECT_EQ(column.dtype, dtype) << n;
    ASSERT_EQ(category_texts(column).size(), static_cast<std::size_t>(n));
    dispatch_dtype(column.dtype, [&](auto zero) {
      const auto* codes = static_cast<const decltype(zero)*>(column.values);
      EXPECT_EQ(static_cast<std::int64_t>(codes[99]), 99);
      EXPECT_EQ(static_cast<std::int64_t>(codes[100]), 50);
      EXPECT_EQ(static_cast<std::int64_t>(codes[column.length - 1]), n - 1);
    });
  }
}

TEST(ObsOfSeveralSources, KeepsTheFirstOriginOfCells) {
  TempDir first;
  const auto once = store_of(first.path(), {table_of("x", numbered_texts(0, 4))});
  TempDir second;
  const auto twice = store_of(second.path(), {once->read_obs(2, 4)});
  const auto table = twice->read_obs(0, 2);
  EXPECT_EQ(table->GetColumnByName("_source_row")->GetScalar(0).ValueOrDie()->ToString(), "2");
  EXPECT_EQ(table->num_columns(), 4);
}

TEST(ObsOfSeveralSources, ReadsAcrossRowGroups) {
  TempDir dir;
  const auto store =
      store_of(dir.path(), {table_of("x", numbered_texts(0, kObsRowGroupRows + 10))});
  const auto table = store->read_obs(kObsRowGroupRows - 1, kObsRowGroupRows + 2);
  EXPECT_EQ(table->GetColumnByName("x")->GetScalar(0).ValueOrDie()->ToString(), "c65535");
  EXPECT_EQ(table->GetColumnByName("x")->GetScalar(2).ValueOrDie()->ToString(), "c65537");
}

}  // namespace
}  // namespace cellfeed::format::shard
