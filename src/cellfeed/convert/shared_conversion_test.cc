// Shards written by several writers at once are those of one; what they are told is read as it was
// meant, and nothing else.
#include "cellfeed/convert/shared_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/convert/shard_worker.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::directory_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallAtlas;
using testing::TempDir;

class Sharing : public ::testing::Test {
 protected:
  Sharing() {
    options_.convert.input =
        testing::cells_of({SmallAtlas({.n_cells = 2000, .n_genes = 100}).write(dir_.file("a"))});
    options_.convert.output_dir = dir_.file("many");
    options_.convert.shard_size = 300;
    options_.convert.threads = 2;
  }

  std::string error_of(const std::string& task) const {
    try {
      ShardWorker(task, options_.convert.input, {});
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  TempDir dir_;
  SharedOptions options_;
};

TEST_F(Sharing, CallersOfOneWorkerAndOfAnotherWriteTheBytesOfOneProcess) {
  for (const bool shuffles : {false, true}) {
    options_.convert.shuffle = shuffles;
    options_.convert.existing = ExistingTarget::kOverwrite;
    ConvertOptions one = options_.convert;
    one.output_dir = dir_.file("one");
    convert_to_shards(one);
    SharedConversion conversion(options_);
    ShardWorker first(conversion.task(), options_.convert.input, {.threads = 2, .n_callers = 2});
    ShardWorker second(conversion.task(), options_.convert.input, {});
    std::vector<std::vector<std::string>> written(3);
    {
      std::jthread a([&] { written[0] = first.write({0, 4}, {}, {}); });
      std::jthread b([&] { written[1] = first.write({1, 2, 6}, {}, {}); });
      std::jthread c([&] { written[2] = second.write({3, 5, 4}, {}, {}); });
    }
    for (const auto& part : written)
      for (const std::string& shard : part) conversion.add(shard);
    EXPECT_EQ(conversion.finish().shards.n_cells, 2000);
    EXPECT_EQ(directory_bytes(dir_.file("many")), directory_bytes(dir_.file("one")));
  }
}

TEST_F(Sharing, AMissingShardIsNamed) {
  SharedConversion conversion(options_);
  ShardWorker worker(conversion.task(), options_.convert.input, {});
  for (const std::string& shard : worker.write({0, 1, 2, 3, 4, 5}, {}, {})) conversion.add(shard);
  try {
    conversion.finish();
    ADD_FAILURE() << "finished without the last shard";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("shard 6 was not written"));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.file("many") + "/shard_metadata.json"));
}

TEST_F(Sharing, ProgressCountsTheCellsOfTheShards) {
  const SharedConversion conversion(options_);
  ShardWorker worker(conversion.task(), options_.convert.input, {});
  std::vector<std::int64_t> done;
  worker.write({6, 1},
               [&](const Progress& p) {
                 EXPECT_EQ(p.total, 500);
                 done.push_back(p.done);
               },
               {});
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.back(), 500);
}

TEST_F(Sharing, OptionsAreReadAsTheyWereWritten) {
  ConvertOptions& convert = options_.convert;
  convert.obs.only = {"gène", "un\"quoted"};
  convert.seed = ~std::uint64_t{0};
  convert.gene_order = format::shard::GeneOrder::kMean;
  convert.existing = ExistingTarget::kResume;
  options_.processing = ProcessingOptions{.target_sum = 0.1, .n_top_genes = 7};
  options_.processing->flavor = HvgFlavor::kSeuratV3;
  const SharedOptions read = shared_options_of(to_text(options_));
  EXPECT_EQ(to_text(read), to_text(options_));
  EXPECT_EQ(read.convert.obs.only, convert.obs.only);
  EXPECT_EQ(read.convert.seed, convert.seed);
  EXPECT_EQ(read.convert.gene_order, convert.gene_order);
  EXPECT_EQ(read.convert.existing, convert.existing);
  EXPECT_EQ(read.processing->target_sum, 0.1);
  EXPECT_EQ(read.processing->flavor, HvgFlavor::kSeuratV3);
}

TEST_F(Sharing, TextsThatAreNoOptionsAreRefused) {
  const std::string text = to_text(options_);
  for (const std::string& bad : {std::string(), std::string("{}"), text.substr(0, text.size() / 2),
                                 std::string(text).replace(text.find("\"packed\""), 8, "\"loose\""),
                                 std::string(text).replace(text.find("300"), 3, "\"300\"")})
    EXPECT_THROW(shared_options_of(bad), Error) << bad;
}

TEST_F(Sharing, AWorkerWithoutTheConversionSaysWhatIsMissing) {
  std::string task;
  {
    const SharedConversion conversion(options_);
    task = conversion.task();
    EXPECT_EQ(error_of(task), "");
  }
  std::filesystem::remove_all(dir_.file("many"));
  EXPECT_THAT(error_of(task), HasSubstr("does not see the folder"));
  std::filesystem::create_directory(dir_.file("many"));
  EXPECT_THAT(error_of(task), HasSubstr("no longer under way"));
}

TEST_F(Sharing, AFirstPassIsReadAsItWasWritten) {
  const ShardTarget target{io::Directory(dir_.path()), 3};
  FirstPass found;
  found.gene_order = {2, 0, 1};
  found.kept.genes = {0, 2};
  found.kept.rows = {std::nullopt, std::vector<std::int64_t>{5, 9}, std::vector<std::int64_t>{}};
  found.kept.totals = {{}, {0.5, -2}, {}};
  write_first_pass(target, found);
  const FirstPass read = read_first_pass(target);
  EXPECT_THAT(read.gene_order, ElementsAre(2, 0, 1));
  EXPECT_EQ(read.kept.genes, found.kept.genes);
  EXPECT_EQ(read.kept.rows, found.kept.rows);
  EXPECT_EQ(read.kept.totals, found.kept.totals);
}

TEST_F(Sharing, WhatCannotBeOfTheInputsIsRefused) {
  const Preprocessing preprocessing({.processing = {}, .convert = options_.convert});
  const KeptCells good{.genes = {0, 99}, .rows = {{{0, 1999}}}, .totals = {{1, 2}}};
  EXPECT_NO_THROW(preprocessing.require_own(good));
  const auto refuses = [&](auto change) {
    KeptCells bad = good;
    change(bad);
    EXPECT_THROW(preprocessing.require_own(bad), Error);
  };
  refuses([](KeptCells& kept) { kept.genes = {0, 100}; });
  refuses([](KeptCells& kept) { kept.genes = {5, 5}; });
  refuses([](KeptCells& kept) { kept.genes = {-1, 5}; });
  refuses([](KeptCells& kept) { kept.rows[0]->back() = 2000; });
  refuses([](KeptCells& kept) { kept.rows[0]->front() = -1; });
  refuses([](KeptCells& kept) { kept.rows.clear(); });
  refuses([](KeptCells& kept) { kept.totals[0] = {1}; });
  refuses([](KeptCells& kept) { kept.totals.clear(); });
}

}  // namespace
}  // namespace cellfeed::convert
