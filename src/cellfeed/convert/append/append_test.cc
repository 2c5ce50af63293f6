#include "cellfeed/convert/append/append.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/info.h"
#include "cellfeed/convert/preprocess/preprocess.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/testing/append_fixture.h"
#include "cellfeed/testing/small_atlas.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using cellfeed::testing::AppendFixture;
using cellfeed::testing::column_texts;
using cellfeed::testing::directory_bytes;
using cellfeed::testing::error_of;
using cellfeed::testing::expect_same_cells;
using cellfeed::testing::read_back;
using cellfeed::testing::ReadBack;
using cellfeed::testing::SmallAtlas;
using cellfeed::testing::SmallAtlasOptions;
using ::testing::HasSubstr;

class Append : public AppendFixture {};

// In the order of their codes.
std::vector<std::string> categories_of(const ReadBack& cells, const std::string& column) {
  const auto& coded =
      static_cast<const arrow::DictionaryArray&>(*cells.obs->GetColumnByName(column)->chunk(0));
  const auto& labels = static_cast<const arrow::StringArray&>(*coded.dictionary());
  std::vector<std::string> categories;
  for (std::int64_t i = 0; i < labels.length(); ++i) categories.push_back(labels.GetString(i));
  return categories;
}

TEST_F(Append, GivesWhatOneConversionOfAllFilesGives) {
  convert_to_shards(conversion("all", {"a.h5ad", "b.h5ad", "c.h5ad"}));
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  append_to_shards(append({"b.h5ad"}));
  const AppendResult result = append_to_shards(append({"c.h5ad"}));
  EXPECT_EQ(result.n_cells_added, 45);
  EXPECT_EQ(result.n_shards_added, 2);
  EXPECT_EQ(result.shards.n_cells, 140);
  EXPECT_EQ(result.shards.n_shards, 7);
  EXPECT_EQ(result.missing_genes_text, "");
  const ReadBack found = read_back(shards_), wanted = read_back(dir_.file("all"));
  expect_same_cells(found, wanted);
  EXPECT_EQ(categories_of(found, "cell_type"), categories_of(wanted, "cell_type"));
  EXPECT_TRUE(shard::verify_shard_dir(shards_).empty());
}

TEST_F(Append, WritesNothingAgainThatIsThere) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  const auto before = bytes();
  append_to_shards(append({"b.h5ad", "c.h5ad"}));
  auto after = bytes();
  for (const auto& [name, content] : before) {
    EXPECT_EQ(after.at(name) == content, name != shard::kManifestName) << name;
  }
  // 80 cells in 4 shards of three files.
  EXPECT_EQ(after.size(), before.size() + 12);
}

TEST_F(Append, IsOfTheSameBytesWhateverTheThreads) {
  for (const int threads : {1, 4}) {
    const std::string to = "shards" + std::to_string(threads);
    convert_to_shards(conversion(to, {"a.h5ad"}));
    AppendOptions options = append({"b.h5ad", "c.h5ad"}, to);
    options.convert.threads = threads;
    append_to_shards(options);
  }
  EXPECT_EQ(directory_bytes(dir_.file("shards1")), directory_bytes(dir_.file("shards4")));
}

TEST_F(Append, FollowsTheOrderOfGenesAndTheLayout) {
  for (const auto layout : {shard::Layout::kPacked, shard::Layout::kDense}) {
    ConvertOptions base = conversion("shards", {"a.h5ad"});
    base.gene_order = shard::GeneOrder::kMean;
    base.layout = layout;
    base.existing = ExistingTarget::kOverwrite;
    convert_to_shards(base);
    const std::vector<std::string> genes = read_back(shards_).genes;
    EXPECT_NE(genes, read_back(dir_.file("a.h5ad")).genes);
    append_to_shards(append({"c.h5ad"}));
    const ReadBack found = read_back(shards_);
    EXPECT_EQ(found.genes, genes);
    const ReadBack first = read_back(dir_.file("a.h5ad")), second = read_back(dir_.file("c.h5ad"));
    auto rows = first.rows;
    rows.insert(rows.end(), second.rows.begin(), second.rows.end());
    EXPECT_EQ(found.rows, rows);
    EXPECT_TRUE(shard::verify_shard_dir(shards_).empty());
  }
}

TEST_F(Append, NamesGenesThatASourceLacksAndReadsThemAsZeros) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  write("few.h5ad", {.n_cells = 20, .n_genes = 40, .seed = 5});
  AppendOptions options = append({"few.h5ad"});
  options.refuse_missing_genes = true;
  EXPECT_THAT(refusal(options, ErrorKind::kNoSuchKey),
              HasSubstr("10 of the 50 genes of the shards are not in"));
  options.refuse_missing_genes = false;
  const AppendResult result = append_to_shards(options);
  EXPECT_EQ(result.n_missing_genes, 10);
  EXPECT_THAT(result.missing_genes_text, HasSubstr("gene_40"));
  const ReadBack found = read_back(shards_), few = read_back(dir_.file("few.h5ad"));
  EXPECT_EQ(std::vector(found.rows.begin() + 60, found.rows.end()), few.rows);
}

TEST_F(Append, RefusesASourceWithoutAnyOfTheGenes) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  write("others.h5ad", {.n_cells = 20, .seed = 5, .gene_prefix = "other_"});
  EXPECT_THAT(error_of([&] { append({"others.h5ad"}); }), HasSubstr("none of the 50 genes"));
  AppendOptions options = append({"b.h5ad", "others.h5ad"});
  options.extra_genes = ExtraGenes::kDrop;
  EXPECT_THAT(refusal(options, ErrorKind::kNoSuchKey), HasSubstr("others.h5ad"));
}

TEST_F(Append, RefusesGenesThatTheShardsLackOrKeepsTheTotalsOverThem) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  const SmallAtlas more({.n_cells = 30, .n_genes = 70, .seed = 6});
  more.write(dir_.file("more.h5ad"));
  AppendOptions options = append({"more.h5ad"});
  EXPECT_THAT(refusal(options, ErrorKind::kInvalidArgument),
              HasSubstr("20 of its 70 genes are not in"));
  options.extra_genes = ExtraGenes::kDrop;
  EXPECT_EQ(append_to_shards(options).shards.n_genes_left_out, 20);
  const auto stores = format::open_stores({shards_}, {});
  ASSERT_EQ(stores.size(), 5);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_FALSE(stores[s]->known_library_sizes());
  std::vector<double> totals;
  for (std::size_t s = 3; s < 5; ++s) {
    const auto column = stores[s]->known_library_sizes();
    ASSERT_TRUE(column);
    const auto* values = static_cast<const double*>(column->values);
    totals.insert(totals.end(), values, values + column->length);
  }
  std::vector<double> wanted;
  for (std::int64_t cell = 0; cell < more.n_cells(); ++cell) {
    wanted.push_back(0);
    for (std::int64_t i = more.indptr[cell]; i < more.indptr[cell + 1]; ++i)
      wanted.back() += more.values[i];
  }
  EXPECT_EQ(totals, wanted);
  EXPECT_TRUE(shard::verify_shard_dir(shards_).empty());
}

// Shards that keep totals have them of every cell.
TEST_F(Append, KeepsTotalsWhereTheShardsDo) {
  write("more.h5ad", {.n_cells = 30, .n_genes = 70, .seed = 6});
  const ConvertOptions base = conversion("shards", {"a.h5ad", "more.h5ad"}, {.join = "inner"});
  convert_to_shards(base);
  append_to_shards(append({"c.h5ad"}));
  const auto stores = format::open_stores({shards_}, {});
  const ReadBack found = read_back(shards_);
  std::size_t row = 0;
  for (const auto& store : stores) {
    const auto sizes = store->known_library_sizes();
    ASSERT_TRUE(sizes);
    for (std::int64_t i = 0; i < sizes->length; ++i, ++row) {
      double total = 0;
      for (const auto& [gene, value] : found.rows[row]) total += value;
      if (row >= 90) {
        EXPECT_EQ(static_cast<const double*>(sizes->values)[i], total) << row;
      }
    }
  }
  EXPECT_EQ(row, 135u);
}

TEST_F(Append, RefusesWhatTheShardsHoldAlreadyUnderWhateverName) {
  const ConvertOptions base = conversion("shards", {"a.h5ad", "b.h5ad"}, {.filter = "flag"});
  convert_to_shards(base);
  std::filesystem::copy_file(dir_.file("a.h5ad"), dir_.file("copy.h5ad"));
  EXPECT_THAT(refusal(append({"c.h5ad", "copy.h5ad"}), ErrorKind::kAlreadyExists),
              HasSubstr("a.h5ad"));
  AppendOptions rest = append({"b.h5ad"}, "shards", {.layer = "", .filter = "not flag"});
  EXPECT_THAT(refusal(rest, ErrorKind::kAlreadyExists), HasSubstr("b.h5ad"));
  convert_to_shards(conversion("others", {"b.h5ad"}));
  EXPECT_THAT(refusal(append({"others"}), ErrorKind::kAlreadyExists), HasSubstr("b.h5ad"));
  rest.is_forced = true;
  EXPECT_EQ(append_to_shards(rest).n_cells_added, 17);
  AppendOptions itself = append({"shards"});
  itself.is_forced = true;
  EXPECT_THAT(refusal(itself, ErrorKind::kInvalidArgument), HasSubstr("lies in"));
}

TEST_F(Append, RefusesFilesThatCameByWayOfOtherShards) {
  convert_to_shards(conversion("others", {"a.h5ad", "b.h5ad"}));
  convert_to_shards(conversion("shards", {"others"}));
  EXPECT_THAT(refusal(append({"b.h5ad"}), ErrorKind::kAlreadyExists),
              HasSubstr("by way of other shards"));
  EXPECT_EQ(append_to_shards(append({"c.h5ad"})).n_cells_added, 45);
}

TEST_F(Append, RefusesOtherShardsOfAFileThatCameByWayOfShards) {
  convert_to_shards(conversion("others", {"a.h5ad"}));
  ConvertOptions twins = conversion("twins", {"a.h5ad"});
  twins.shard_size = 17;
  convert_to_shards(twins);
  convert_to_shards(conversion("shards", {"others"}));
  EXPECT_THAT(refusal(append({"twins"}), ErrorKind::kAlreadyExists),
              HasSubstr("by way of other shards"));
}

TEST_F(Append, SaysThatAFileOfTheNameHeldSomethingElse) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  std::filesystem::remove(dir_.file("a.h5ad"));
  write("a.h5ad", {.n_cells = 61, .seed = 9});
  EXPECT_THAT(append_to_shards(append({"a.h5ad"})).warnings,
              ::testing::ElementsAre(HasSubstr("held something else")));
}

TEST_F(Append, RefusesFractionsBehindCountsAndCountsBehindFractions) {
  write("fractions.h5ad", {.n_cells = 30, .seed = 4, .whole_numbers = false});
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  AppendOptions options = append({"b.h5ad", "fractions.h5ad"});
  EXPECT_THAT(refusal(options, ErrorKind::kInvalidArgument),
              HasSubstr("fractions.h5ad: 'X' holds fractions"));
  options.is_forced = true;
  EXPECT_THAT(append_to_shards(options).warnings,
              ::testing::ElementsAre(HasSubstr("'X' holds fractions")));
  ConvertOptions base = conversion("shards", {"fractions.h5ad"});
  base.existing = ExistingTarget::kOverwrite;
  convert_to_shards(base);
  EXPECT_THAT(refusal(append({"a.h5ad"}), ErrorKind::kInvalidArgument),
              HasSubstr("'X' holds whole numbers"));
}

TEST_F(Append, RefusesValuesThatWereProcessedOtherwise) {
  PreprocessOptions options;
  options.convert = conversion("shards", {"a.h5ad"});
  preprocess(options);
  EXPECT_THAT(refusal(append({"b.h5ad"}), ErrorKind::kInvalidArgument),
              HasSubstr("processed otherwise"));
  options.convert = conversion("processed", {"b.h5ad"});
  preprocess(options);
  EXPECT_EQ(append_to_shards(append({"processed"})).n_cells_added, 35);
}

TEST_F(Append, RefusesObsThatDoesNotUniteBeforeAnythingIsWritten) {
  const auto with_column = [&](const std::string& name, std::uint64_t seed,
                               const std::shared_ptr<arrow::Array>& values) {
    const SmallAtlas atlas({.n_cells = 30, .seed = seed});
    format::h5ad::H5adWriter writer(dir_.file(name), atlas.n_genes(), {});
    format::h5ad::CsrSlice slice;
    slice.indptr = atlas.indptr;
    slice.indices = atlas.indices.data();
    slice.values = atlas.values.data();
    slice.dtype = DType::kF64;
    writer.append(slice);
    const auto obs = atlas.obs();
    writer.append_obs(**obs->AddColumn(obs->num_columns(), arrow::field("depth", values->type()),
                                       std::make_shared<arrow::ChunkedArray>(values)));
    writer.finish(atlas.var().get());
  };
  const std::vector<std::int64_t> large(30, (std::int64_t{1} << 53) + 1);
  arrow::Int64Builder integers;
  arrow::DoubleBuilder floats;
  arrow::StringBuilder texts;
  with_column("integers.h5ad", 11, cellfeed::testing::arrow_array(integers, large));
  with_column("floats.h5ad", 12,
              cellfeed::testing::arrow_array(floats, std::vector<double>(30, 0.5)));
  with_column("texts.h5ad", 13,
              cellfeed::testing::arrow_array(texts, std::vector<std::string>(30, "deep")));
  convert_to_shards(conversion("shards", {"integers.h5ad"}));
  EXPECT_THAT(refusal(append({"texts.h5ad"}), ErrorKind::kInvalidArgument), HasSubstr("'depth'"));
  // What is there would not fit the type of both.
  EXPECT_THAT(refusal(append({"floats.h5ad"}), ErrorKind::kPrecision), HasSubstr("'depth'"));
}

TEST_F(Append, RefusesALayerThatIsNotTheOneOfTheShards) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  EXPECT_THAT(error_of([&] { append({"b.h5ad"}, "shards", {.layer = "counts"}); }),
              HasSubstr("counts"));
}

TEST_F(Append, ToANeverConvertedDirectoryIsNamed) {
  EXPECT_THROW(append({"a.h5ad"}), Error);
  EXPECT_FALSE(std::filesystem::exists(shards_));
}

TEST_F(Append, ShufflesTheNewCellsAmongThemselves) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  AppendOptions options = append({"b.h5ad", "c.h5ad"});
  options.convert.shuffle = true;
  options.convert.seed = 7;
  append_to_shards(options);
  const ReadBack found = read_back(shards_);
  const auto names = column_texts(*found.obs, "_index");
  std::vector<std::string> wanted;
  for (const char* file : {"a.h5ad", "b.h5ad", "c.h5ad"}) {
    const auto own = column_texts(*read_back(dir_.file(file)).obs, "_index");
    wanted.insert(wanted.end(), own.begin(), own.end());
  }
  EXPECT_TRUE(std::equal(names.begin(), names.begin() + 60, wanted.begin()));
  EXPECT_NE(names, wanted);
  EXPECT_TRUE(std::ranges::is_permutation(names, wanted));
  const PathDescription description = describe_path(shards_);
  ASSERT_EQ(description.appends.size(), 1u);
  EXPECT_TRUE(description.appends[0].is_shuffled);
  EXPECT_THAT(description_text(description), HasSubstr("80 of 140 cells, behind the others"));
}

}  // namespace
}  // namespace cellfeed::convert
