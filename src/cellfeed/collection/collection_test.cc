// Joins of genes and obs columns over memory stores, against joins done by hand.
#include "cellfeed/collection/collection.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::collection {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

std::shared_ptr<arrow::Array> strings(const std::vector<std::string>& texts) {
  arrow::StringBuilder builder;
  for (const auto& text : texts) EXPECT_TRUE(builder.Append(text).ok());
  return builder.Finish().ValueOrDie();
}

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> numbers(const std::vector<T>& values) {
  Builder builder;
  for (const auto value : values) EXPECT_TRUE(builder.Append(value).ok());
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Table> table(
    std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>> columns) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

std::unique_ptr<format::RowStore> store(std::vector<std::string> genes, std::int64_t n_rows,
                                        std::shared_ptr<arrow::Table> obs = nullptr,
                                        std::uint64_t seed = 1) {
  auto block = testing::random_csr({.n_rows = n_rows,
                                    .n_cols = static_cast<std::int64_t>(genes.size()),
                                    .density = 0.5,
                                    .seed = seed});
  return format::memory::make_memory_store(format::memory::make_stored_csr(block), std::move(obs),
                                           table({{"_index", strings(genes)}}));
}

template <typename... Stores>
std::shared_ptr<const Collection> collect(CollectionOptions options, Stores... stores) {
  std::vector<std::unique_ptr<format::RowStore>> list;
  (list.push_back(std::move(stores)), ...);
  return std::make_shared<const Collection>(std::move(list), options);
}

TEST(Collection, LocatesRowsOverStoresThatMayBeEmpty) {
  const auto cells = collect({}, store({"a"}, 3), store({"a"}, 0), store({"a"}, 2));
  EXPECT_EQ(cells->n_rows(), 5);
  EXPECT_EQ(cells->locate(2).store, 0);
  EXPECT_EQ(cells->locate(3).store, 2);
  EXPECT_EQ(cells->locate(4).row, 1);
}

TEST(Collection, SomeOfTheRowsAreATableOfTheirOwn) {
  const auto cells = collect({}, store({"a"}, 3), store({"a"}, 0), store({"a"}, 2));
  const auto place = [](const Collection& c, std::int64_t row) {
    const RowPlace found = c.locate(row);
    return std::pair(found.store, found.row);
  };
  const std::vector<std::int64_t> rows{cells->n_rows() - 1, 0, 1, 1};
  const auto some = cells->with_rows(rows);
  ASSERT_EQ(some->n_rows(), 4);
  EXPECT_EQ(some->n_stored_rows(), cells->n_rows());
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(place(*some, static_cast<std::int64_t>(i)), place(*cells, rows[i]));
  const std::vector<std::int64_t> again{2, 0};
  const auto fewer = some->with_rows(again);
  EXPECT_EQ(place(*fewer, 0), place(*cells, 1));
  EXPECT_EQ(place(*fewer, 1), place(*cells, rows[0]));
  const std::vector<std::int64_t> beyond{4};
  EXPECT_THROW(some->with_rows(beyond), Error);
  EXPECT_NE(some->fingerprint(), cells->fingerprint());
  EXPECT_NE(fewer->fingerprint(), some->fingerprint());
  EXPECT_EQ(some->fingerprint(), cells->with_rows(rows)->fingerprint());
  EXPECT_EQ(place(*some->with_labels({{"x", LabelMap{}}}), 0), place(*some, 0));
}

TEST(Collection, InnerJoinKeepsTheFirstOrder) {
  const auto cells =
      collect({.join = Join::kInner}, store({"c", "a", "b"}, 2), store({"b", "x", "c"}, 2));
  EXPECT_THAT(cells->genes().names, ElementsAre("c", "b"));
  EXPECT_THAT(cells->gene_map(0), ElementsAre(0, -1, 1));
  EXPECT_THAT(cells->gene_map(1), ElementsAre(1, -1, 0));
}

TEST(Collection, OuterJoinIsTheSortedUnion) {
  const auto cells = collect({.join = Join::kOuter}, store({"c", "a"}, 2), store({"b", "c"}, 2));
  EXPECT_THAT(cells->genes().names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(cells->gene_map(0), ElementsAre(2, 0));
}

TEST(Collection, FixedAxisRules) {
  const auto cells =
      collect({.join = Join::kFixed, .genes = {"b", "nowhere", "a"}}, store({"a", "b", "c"}, 2));
  EXPECT_EQ(cells->genes().size(), 3);
  EXPECT_THAT(cells->gene_map(0), ElementsAre(2, 0, -1));
}

TEST(Collection, SomeOfTheGenesAreAnAxisOfTheirOwn) {
  CollectionOptions options;
  options.join = Join::kOuter;
  const auto cells = collect(options, store({"A", "B", "C"}, 2), store({"C", "D"}, 3));
  const auto some = cells->with_genes(std::vector<std::int64_t>{3, 2, 0});
  EXPECT_THAT(some->genes().names, ElementsAre("D", "C", "A"));
  EXPECT_THAT(some->gene_map(0), ElementsAre(2, -1, 1));
  EXPECT_THAT(some->gene_map(1), ElementsAre(1, 0));
  const auto fewer = some->with_genes(std::vector<std::int64_t>{1});
  EXPECT_THAT(fewer->genes().names, ElementsAre("C"));
  EXPECT_THAT(fewer->gene_map(0), ElementsAre(-1, -1, 0));
  EXPECT_NE(some->fingerprint(), cells->fingerprint());
  EXPECT_THROW(cells->with_genes(std::vector<std::int64_t>{}), Error);
  EXPECT_THROW(cells->with_genes(std::vector<std::int64_t>{4}), Error);
  EXPECT_THROW(cells->with_genes(std::vector<std::int64_t>{-1}), Error);
  EXPECT_THROW(cells->with_genes(std::vector<std::int64_t>{1, 0, 1}), Error);
}

TEST(Collection, StoresOfOneAxisShareTheMapToSomeOfIt) {
  const auto cells = collect({}, store({"A", "B"}, 2), store({"A", "B"}, 3));
  EXPECT_TRUE(cells->gene_map(0).empty());
  const auto some = cells->with_genes(std::vector<std::int64_t>{1});
  EXPECT_THAT(some->gene_map(1), ElementsAre(-1, 0));
  EXPECT_EQ(some->gene_map(0).data(), some->gene_map(1).data());
}

TEST(Collection, DifferentGenesNeedAJoin) {
  EXPECT_THAT(error_of([] { collect({}, store({"a", "b"}, 2), store({"a", "c"}, 2)); }),
              HasSubstr("'c' against 'b'"));
  EXPECT_THAT(error_of([] { collect({.join = Join::kInner}, store({"a"}, 2), store({"b"}, 2)); }),
              HasSubstr("share no gene"));
}

TEST(Collection, RepeatedGeneNamesAreRefusedOrNumbered) {
  EXPECT_THAT(error_of([] { collect({}, store({"a", "b", "a"}, 2)); }),
              HasSubstr("'a' is column 0 and column 2"));
  const auto cells = collect({.make_unique = true}, store({"a", "b", "a", "a-1"}, 2));
  EXPECT_THAT(cells->genes().names, ElementsAre("a", "b", "a-2", "a-1"));
}

TEST(Collection, LabelsOfSeveralStoresShareOneNumbering) {
  const auto cells = collect(
      {},
      store({"a"}, 3,
            table({{"_index", strings({"1", "2", "3"})}, {"kind", strings({"T", "B", "T"})}})),
      store({"a"}, 2),
      store({"a"}, 2, table({{"_index", strings({"1", "2"})}, {"kind", strings({"NK", "B"})}})));
  const auto column = cells->obs_column("kind");
  EXPECT_THAT(column->categories(),
              ElementsAre(matrix::Category("B"), matrix::Category("NK"), matrix::Category("T")));
  std::vector<RowPlace> places;
  for (std::int64_t row = 0; row < cells->n_rows(); ++row) places.push_back(cells->locate(row));
  std::vector<std::int64_t> codes(places.size());
  column->gather(places, codes.data());
  EXPECT_THAT(codes, ElementsAre(2, 0, 2, -1, -1, 1, 0));
}

TEST(Collection, NumbersPromoteAndMissingOnesAreNaN) {
  const auto cells = collect(
      {},
      store({"a"}, 2,
            table({{"_index", strings({"1", "2"})},
                   {"n", numbers<arrow::Int32Builder, std::int32_t>({5, -7})}})),
      store(
          {"a"}, 1,
          table({{"_index", strings({"1"})}, {"n", numbers<arrow::DoubleBuilder, double>({0.5})}})),
      store({"a"}, 1));
  const auto column = cells->obs_column("n");
  EXPECT_EQ(column->dtype(), DType::kF64);
  std::vector<RowPlace> places;
  for (std::int64_t row = 0; row < cells->n_rows(); ++row) places.push_back(cells->locate(row));
  std::vector<double> values(places.size());
  column->gather(places, values.data());
  EXPECT_EQ(values[1], -7);
  EXPECT_EQ(values[2], 0.5);
  EXPECT_TRUE(std::isnan(values[3]));
}

TEST(Collection, UnknownColumnNamesTheKnownOnes) {
  const auto cells =
      collect({}, store({"a"}, 1, table({{"_index", strings({"1"})}, {"kind", strings({"T"})}})));
  EXPECT_THAT(error_of([&] { cells->obs_column("kin"); }), HasSubstr("there are: kind"));
}

TEST(Collection, LabelsAndNumbersDoNotMix) {
  const auto cells =
      collect({}, store({"a"}, 1, table({{"_index", strings({"1"})}, {"kind", strings({"T"})}})),
              store({"a"}, 1,
                    table({{"_index", strings({"1"})},
                           {"kind", numbers<arrow::Int32Builder, std::int32_t>({5})}})));
  EXPECT_THAT(error_of([&] { cells->obs_column("kind"); }),
              HasSubstr("numbers (int32) here but labels (text)"));
}

TEST(Paths, GlobsThatMatchNothingAreAnError) {
  EXPECT_THAT(error_of([] { expand_paths({"/nowhere/*.h5ad"}); }), HasSubstr("no file matches"));
  EXPECT_THAT(error_of([] { expand_paths({}); }), HasSubstr("no input paths"));
}

class Globs : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"b/x.h5ad", "a/x.h5ad", "a/y.h5ad", "B/x.h5ad", ".hidden/x.h5ad"}) {
      std::filesystem::create_directories((root_ / name).parent_path());
      std::ofstream(root_ / name) << "x";
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::vector<std::string> expand(const std::string& pattern) const {
    std::vector<std::string> found = expand_paths({(root_ / pattern).string()});
    for (std::string& path : found) path = path.substr(root_.string().size() + 1);
    return found;
  }

  const std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) / ("globs" + std::to_string(::getpid()));
};

TEST_F(Globs, ComeInTheOrderOfTheirBytes) {
  EXPECT_THAT(expand("*/x.h5ad"), ElementsAre("B/x.h5ad", "a/x.h5ad", "b/x.h5ad"));
  EXPECT_THAT(expand("a/?.h5ad"), ElementsAre("a/x.h5ad", "a/y.h5ad"));
  EXPECT_THAT(expand("[ab]/[!x].*"), ElementsAre("a/y.h5ad"));
  EXPECT_THAT(expand("[ab]"), ElementsAre("a", "b"));
}

TEST_F(Globs, AFolderThatCannotBeListedIsAnError) {
  std::filesystem::create_symlink("loop", root_ / "loop");
  for (const char* pattern : {"*/*.h5ad", "*/x.h5ad"})
    EXPECT_THAT(error_of([&] { expand(pattern); }), HasSubstr("loop")) << pattern;
}

TEST_F(Globs, AFileThatIsThereTwiceIsAnError) {
  const std::string x = root_ / "a/x.h5ad";
  std::filesystem::create_symlink(x, root_ / "a/z.h5ad");
  std::filesystem::create_hard_link(x, root_ / "hard.h5ad");
  const std::vector<std::vector<std::string>> lists{{x, root_ / "a/./x.h5ad"},
                                                    {root_ / "a/?.h5ad"},
                                                    {root_ / "b/x.h5ad", x, root_ / "hard.h5ad"},
                                                    {x, root_ / "[a]/x.h5ad"},
                                                    {root_ / "a", root_ / "a/../a"}};
  for (const auto& paths : lists)
    EXPECT_THAT(error_of([&] { expand_paths(paths); }),
                AllOf(HasSubstr("given twice"), HasSubstr("the other name: ")));
}

TEST_F(Globs, ThatShouldGoIntoFoldersOfFoldersAreRefused) {
  EXPECT_THAT(error_of([&] { expand("**/x.h5ad"); }), HasSubstr("**"));
}

TEST(JoinNames, AFixedAxisTakesNoName) {
  EXPECT_EQ(join_from_name(""), Join::kNone);
  EXPECT_EQ(join_from_name("inner"), Join::kInner);
  EXPECT_EQ(join_from_name("outer"), Join::kOuter);
  EXPECT_EQ(join_from_name("", true), Join::kFixed);
  EXPECT_THAT(error_of([] { join_from_name("inner", true); }), HasSubstr("either genes or join"));
  EXPECT_THAT(error_of([] { join_from_name("iner"); }), HasSubstr("not 'iner'"));
}

}  // namespace
}  // namespace cellfeed::collection
