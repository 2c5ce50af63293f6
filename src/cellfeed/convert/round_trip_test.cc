// h5ad -> shards -> h5ad: what goes in comes out, for every layout, gene order and dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/convert/export.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::column_texts;
using ::testing::ElementsAre;
using testing::read_back;
using testing::ReadBack;
using testing::SmallAtlas;
using testing::SmallAtlasOptions;
using testing::TempDir;

std::vector<testing::Row> expected_rows(const SmallAtlas& atlas) {
  const auto names = atlas.gene_names();
  std::vector<testing::Row> rows(atlas.n_cells());
  for (std::int64_t i = 0; i < atlas.n_cells(); ++i)
    for (std::int64_t k = atlas.indptr[i]; k < atlas.indptr[i + 1]; ++k)
      rows[i][names[atlas.indices[k]]] = atlas.values[k];
  return rows;
}

void expect_same_obs(const arrow::Table& actual, const arrow::Table& expected) {
  for (const std::string& name : expected.ColumnNames())
    EXPECT_EQ(column_texts(actual, name), column_texts(expected, name)) << name;
}

ConvertOptions options_for(std::vector<std::string> inputs, std::string output,
                           InputOptions how = {}) {
  ConvertOptions options;
  options.input = testing::cells_of(std::move(inputs), std::move(how));
  options.output_dir = std::move(output);
  options.threads = 2;
  return options;
}

class RoundTrip : public ::testing::TestWithParam<DType> {};

TEST_P(RoundTrip, ShardsHoldTheRowsObsAndGenesOfTheFile) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 103, .n_genes = 70, .dtype = GetParam()});
  ConvertOptions options = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("shards"));
  options.shard_size = 40;
  const ConvertResult result = convert_to_shards(options);
  EXPECT_EQ(result.n_cells, 103);
  EXPECT_EQ(result.n_shards, 3);
  EXPECT_EQ(result.nnz, atlas.nnz());

  const ReadBack shards = read_back(dir.file("shards"));
  EXPECT_EQ(shards.rows, expected_rows(atlas));
  EXPECT_EQ(shards.genes, atlas.gene_names());
  EXPECT_EQ(shards.dtype, dtype_name(GetParam()));
  expect_same_obs(*shards.obs, *atlas.obs());
  const auto source_rows = column_texts(*shards.obs, "_source_row");
  EXPECT_EQ(source_rows.front(), "0");
  EXPECT_EQ(source_rows.back(), "102");
}

INSTANTIATE_TEST_SUITE_P(EveryDtype, RoundTrip,
                         ::testing::Values(DType::kF32, DType::kF64, DType::kI32, DType::kI64,
                                           DType::kU16, DType::kU32, DType::kU64),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

void expect_export_equals_source(ConvertOptions options, const TempDir& dir,
                                 const SmallAtlas& atlas) {
  convert_to_shards(options);
  ExportOptions back;
  back.input = testing::cells_of({options.output_dir});
  back.output = dir.file("back.h5ad");
  const ExportResult result = export_h5ad(back);
  EXPECT_EQ(result.nnz, atlas.nnz());
  const ReadBack source = read_back(options.input.all_paths().front());
  const ReadBack exported = read_back(back.output);
  EXPECT_EQ(exported.rows, expected_rows(atlas));
  EXPECT_EQ(exported.genes, atlas.gene_names());
  EXPECT_EQ(exported.dtype, source.dtype);
  EXPECT_TRUE(
      exported.obs->CombineChunks().ValueOrDie()->Equals(*source.obs->CombineChunks().ValueOrDie()))
      << exported.obs->ToString() << source.obs->ToString();
  EXPECT_TRUE(
      exported.var->CombineChunks().ValueOrDie()->Equals(*source.var->CombineChunks().ValueOrDie()))
      << exported.var->ToString() << source.var->ToString();
}

TEST(Export, GivesTheFileBackWithItsDtypesCategoriesAndOrder) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 90, .n_genes = 64});
  ConvertOptions options = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("shards"));
  options.shard_size = 37;
  expect_export_equals_source(options, dir, atlas);
}

TEST(Export, PutsGenesInMeanOrderBackIntoTheSourcesOrder) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 90, .n_genes = 64});
  ConvertOptions options = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("shards"));
  options.gene_order = format::shard::GeneOrder::kMean;
  options.shard_size = 37;
  expect_export_equals_source(options, dir, atlas);
}

TEST(GeneOrder, MeanOrderStoresFrequentGenesFirst) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 90, .n_genes = 64});
  ConvertOptions options = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("shards"));
  options.gene_order = format::shard::GeneOrder::kMean;
  convert_to_shards(options);
  const ReadBack shards = read_back(options.output_dir);
  EXPECT_EQ(shards.rows, expected_rows(atlas));
  std::map<std::string, double> sums;
  for (const auto& row : shards.rows)
    for (const auto& [gene, value] : row) sums[gene] += value;
  for (std::size_t g = 1; g < shards.genes.size(); ++g)
    EXPECT_GE(sums[shards.genes[g - 1]], sums[shards.genes[g]]) << g;
}

TEST(Conversion, DoesNotDependOnThreadsOrBudget) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 400, .n_genes = 90});
  const std::string input = atlas.write(dir.file("a.h5ad"));
  ConvertOptions one = options_for({input}, dir.file("one"));
  one.threads = 1;
  one.shard_size = 150;
  one.memory_budget = 32 << 20;
  ConvertOptions four = options_for({input}, dir.file("four"));
  four.threads = 4;
  four.shard_size = 150;
  convert_to_shards(one);
  convert_to_shards(four);
  EXPECT_EQ(testing::directory_bytes(one.output_dir), testing::directory_bytes(four.output_dir));
}

TEST(Conversion, DenseShardsHoldTheSameRows) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 30, .n_genes = 20});
  ConvertOptions options = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("shards"));
  options.layout = format::shard::Layout::kDense;
  options.shard_size = 11;
  convert_to_shards(options);
  EXPECT_EQ(read_back(options.output_dir).rows, expected_rows(atlas));
}

TEST(Conversion, OneCellIsEnoughAndNoneIsRefused) {
  const TempDir dir;
  const SmallAtlas one({.n_cells = 1});
  convert_to_shards(options_for({one.write(dir.file("one.h5ad"))}, dir.file("one")));
  EXPECT_EQ(read_back(dir.file("one")).rows, expected_rows(one));

  const SmallAtlas none({.n_cells = 0});
  const std::string empty = none.write(dir.file("none.h5ad"));
  EXPECT_THROW(convert_to_shards(options_for({empty}, dir.file("none"))), Error);
  EXPECT_FALSE(std::filesystem::exists(dir.file("none")));
}

TEST(Join, InnerKeepsSharedGenesOuterAllAndWithoutItTheErrorNamesTheRemedy) {
  const TempDir dir;
  const SmallAtlas wide({.n_cells = 20, .n_genes = 30, .seed = 1});
  const SmallAtlas narrow(
      {.n_cells = 15, .n_genes = 25, .seed = 2, .cell_types = {"T cell", "NK cell"}});
  const std::vector<std::string> inputs = {wide.write(dir.file("a.h5ad")),
                                           narrow.write(dir.file("b.h5ad"))};
  try {
    convert_to_shards(options_for(inputs, dir.file("none")));
    FAIL() << "different genes were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("join"));
  }
  auto rows = expected_rows(wide);
  const auto more = expected_rows(narrow);
  rows.insert(rows.end(), more.begin(), more.end());

  ConvertOptions outer = options_for(inputs, dir.file("outer"), {.join = "outer"});
  outer.shard_size = 18;  // a shard that holds cells of both
  convert_to_shards(outer);
  const ReadBack all = read_back(outer.output_dir);
  EXPECT_EQ(all.rows, rows);
  EXPECT_EQ(all.genes.size(), 30);
  const auto types = column_texts(*all.obs, "cell_type");
  const auto types_a = column_texts(*wide.obs(), "cell_type"),
             types_b = column_texts(*narrow.obs(), "cell_type");
  EXPECT_EQ(std::vector<std::string>(types.begin(), types.begin() + 20), types_a);
  EXPECT_EQ(std::vector<std::string>(types.begin() + 20, types.end()), types_b);

  const ConvertOptions inner = options_for(inputs, dir.file("inner"), {.join = "inner"});
  convert_to_shards(inner);
  const ReadBack shared = read_back(inner.output_dir);
  EXPECT_EQ(shared.genes, narrow.gene_names());
  for (auto& row : rows)
    std::erase_if(row, [](const auto& gene) { return std::stoi(gene.first.substr(5)) >= 25; });
  EXPECT_EQ(shared.rows, rows);
}

TEST(Join, AListOfGenesFixesTheAxis) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 20, .n_genes = 30});
  const ConvertOptions options = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("shards"),
                                             {.genes = {"gene_29", "not measured", "gene_3"}});
  EXPECT_EQ(convert_to_shards(options).n_absent_genes, 1);
  const ReadBack shards = read_back(options.output_dir);
  EXPECT_THAT(shards.genes, ElementsAre("gene_29", "not measured", "gene_3"));
  auto rows = expected_rows(atlas);
  for (auto& row : rows)
    std::erase_if(row, [](const auto& g) { return g.first != "gene_29" && g.first != "gene_3"; });
  EXPECT_EQ(shards.rows, rows);
  EXPECT_THAT(column_texts(*shards.var, "length"), ElementsAre("971", "null", "997"));
}

TEST(Join, ShardDirectoriesAreInputsToo) {
  const TempDir dir;
  const SmallAtlas atlas({.n_cells = 50, .n_genes = 30});
  ConvertOptions first = options_for({atlas.write(dir.file("a.h5ad"))}, dir.file("first"));
  first.shard_size = 20;
  convert_to_shards(first);
  ConvertOptions second = options_for({first.output_dir}, dir.file("second"));
  second.shard_size = 35;
  convert_to_shards(second);
  const ReadBack again = read_back(second.output_dir);
  EXPECT_EQ(again.rows, expected_rows(atlas));
  EXPECT_EQ(column_texts(*again.obs, "_source_file").back(), first.input.all_paths().front());
  EXPECT_EQ(column_texts(*again.obs, "_source_row").back(), "49");
}

}  // namespace
}  // namespace cellfeed::convert
