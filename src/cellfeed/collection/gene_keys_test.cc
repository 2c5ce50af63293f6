// Names of genes by a column of var, over memory stores.
#include "cellfeed/collection/gene_keys.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/random_csr.h"

namespace cellfeed::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

std::shared_ptr<arrow::Array> nullable_texts(const std::vector<const char*>& texts) {
  arrow::StringBuilder builder;
  for (const char* text : texts)
    EXPECT_TRUE((text == nullptr ? builder.AppendNull() : builder.Append(text)).ok());
  return builder.Finish().ValueOrDie();
}

std::unique_ptr<format::RowStore> store_of_three_genes() {
  arrow::Int64Builder lengths;
  EXPECT_TRUE(lengths.AppendValues({7, 8, 9}).ok());
  const arrow::FieldVector fields = {
      arrow::field("_index", arrow::utf8()), arrow::field("ids", arrow::utf8()),
      arrow::field("partial", arrow::utf8()), arrow::field("empty", arrow::utf8()),
      arrow::field("length", arrow::int64())};
  auto var = arrow::Table::Make(
      arrow::schema(fields), std::vector<std::shared_ptr<arrow::Array>>{
                                 nullable_texts({"A", "B", "C"}), nullable_texts({"z", "x", "z"}),
                                 nullable_texts({"p", nullptr, "q"}),
                                 nullable_texts({"p", "q", ""}), lengths.Finish().ValueOrDie()});
  const auto block = testing::random_csr({.n_rows = 2, .n_cols = 3, .density = 0.5, .seed = 1});
  return format::memory::make_memory_store(format::memory::make_stored_csr(block), nullptr,
                                           std::move(var));
}

TEST(GeneKeys, AreTheFirstColumnThatThereIs) {
  const auto store = store_of_three_genes();
  EXPECT_THAT(keys_of_genes(*store, {}), ElementsAre("A", "B", "C"));
  EXPECT_THAT(keys_of_genes(*store, Texts{"ids"}), ElementsAre("z", "x", "z"));
  EXPECT_THAT(keys_of_genes(*store, Texts{"nowhere", "ids", "_index"}), ElementsAre("z", "x", "z"));
  EXPECT_THAT(keys_of_genes(*store, Texts{"nowhere", "_index", "ids"}), ElementsAre("A", "B", "C"));
}

TEST(GeneKeys, GenesWithoutOneAreNamed) {
  const auto store = store_of_three_genes();
  const auto refuses = [&](const char* column, const char* text) {
    try {
      keys_of_genes(*store, Texts{column});
      ADD_FAILURE() << column;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  refuses("partial", "gene 1 ('B') has no value in var column 'partial'");
  refuses("empty", "gene 2 ('C') has no value in var column 'empty'");
  refuses("length", "'length' holds int64, not text");
  refuses("nowhere", "var has no column 'nowhere'; there are: 'ids', 'partial', 'empty', 'length'");
}

}  // namespace
}  // namespace cellfeed::collection
