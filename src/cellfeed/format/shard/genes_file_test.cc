// Positions of genes in their source: an order of all genes, or refused.
#include "cellfeed/format/shard/genes_file.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

using Positions = std::vector<std::int64_t>;
using ::testing::HasSubstr;

std::string error_with(const Positions& positions) {
  cellfeed::testing::TempDir dir;
  const cellfeed::testing::ShardFixture fixture{.n_genes = 4};
  auto manifest = cellfeed::testing::fixture_head(dir.path(), fixture);
  manifest.genes = write_genes(dir.path(), cellfeed::testing::fixture_var(4), positions);
  write_manifest(dir.path(), manifest);
  try {
    EXPECT_EQ(read_genes(ShardDirectory(dir.path())).original_position, positions);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
    return error.what();
  }
  return "no error";
}

TEST(Genes, PositionsAreAPermutation) {
  EXPECT_EQ(error_with({0, 1, 2, 3}), "no error");
  EXPECT_EQ(error_with({2, 0, 3, 1}), "no error");
  for (const Positions& positions :
       {Positions{0, 1, 1, 3}, Positions{0, 1, 2, 4}, Positions{-1, 0, 1, 2}})
    EXPECT_THAT(error_with(positions), HasSubstr("no order of the 4 genes"));
}

TEST(Genes, NamesBeforeTheyWereNumberedAreKept) {
  const cellfeed::testing::TempDir dir;
  auto manifest = cellfeed::testing::fixture_head(dir.path(), {.n_genes = 4});
  const matrix::RepeatedNames repeated{{1, "A"}, {3, "A"}};
  const auto var = cellfeed::testing::fixture_var(4);
  const auto written = [&](const matrix::RepeatedNames& names) {
    manifest.genes = write_genes(dir.path(), var, Positions{0, 1, 2, 3}, names);
    write_manifest(dir.path(), manifest);
    return read_genes(ShardDirectory(dir.path()));
  };
  const Genes genes = written(repeated);
  EXPECT_EQ(genes.axis.repeated, repeated);
  EXPECT_EQ(genes.var->schema()->field_names(), var->schema()->field_names());
  EXPECT_EQ(genes.axis.take(Positions{3, 0}).repeated, (matrix::RepeatedNames{{0, "A"}}));
  EXPECT_TRUE(written({}).axis.repeated.empty());
}

}  // namespace
}  // namespace cellfeed::format::shard
