// Before a conversion goes on, the shards that are finished are looked at: by all threads, with
// progress, and until it is stopped. What is not the same conversion is refused in plain words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cellfeed/convert/conversion_plan.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/testing/conversion_error.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::directory_bytes;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SmallAtlas;
using testing::TempDir;

class Resuming : public ::testing::TestWithParam<bool> {
 protected:
  Resuming() : atlas_({.n_cells = 2000, .n_genes = 100}) {
    options_.input = testing::cells_of({atlas_.write(dir_.file("a.h5ad"))});
    options_.output_dir = dir_.file("out");
    options_.shard_size = 300;
    options_.threads = 3;
  }

  // Three shards and more are finished; with GetParam() all are.
  void leave_to_be_resumed() {
    if (GetParam()) {
      convert_to_shards(options_);
    } else {
      std::stop_source stop;
      ConvertOptions stopped = options_;
      stopped.stop = stop.get_token();
      stopped.progress = [&](const Progress& p) {
        if (p.done > 1000) stop.request_stop();
      };
      error_of(stopped, ErrorKind::kCancelled);
    }
    options_.existing = ExistingTarget::kResume;
  }

  TempDir dir_;
  SmallAtlas atlas_;
  ConvertOptions options_;
};

TEST_P(Resuming, ShowsHowFarTheCheckIs) {
  leave_to_be_resumed();
  std::vector<Progress> checks;
  std::set<std::string_view> phases;
  options_.progress = [&](const Progress& p) {
    phases.insert(p.phase);
    if (p.phase == "checking finished shards") checks.push_back(p);
  };
  const ConvertResult result = convert_to_shards(options_);
  EXPECT_GE(result.n_shards_resumed, 3);
  ASSERT_FALSE(checks.empty());
  EXPECT_EQ(checks.back().done, checks.back().total);
  EXPECT_EQ(checks.back().total, std::min<std::int64_t>(2000, result.n_shards_resumed * 300));
  EXPECT_EQ(phases.contains("writing shards"), !GetParam());
}

TEST_P(Resuming, AStopEndsTheCheckAndChangesNothing) {
  leave_to_be_resumed();
  const auto before = directory_bytes(dir_.file("out"));
  std::stop_source stop;
  ConvertOptions stopped = options_;
  stopped.stop = stop.get_token();
  stopped.progress = [&](const Progress& p) {
    EXPECT_EQ(p.phase, "checking finished shards");
    stop.request_stop();
  };
  error_of(stopped, ErrorKind::kCancelled);
  EXPECT_EQ(directory_bytes(dir_.file("out")), before);
  EXPECT_GE(convert_to_shards(options_).n_shards_resumed, 3);
}

INSTANTIATE_TEST_SUITE_P(All, Resuming, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Finished" : "Unfinished"; });

TEST(ConversionPlan, DifferencesAreNamedInTheWordsOfTheOptions) {
  TempDir dir;
  SmallAtlas atlas({.n_cells = 900, .n_genes = 50});
  ConvertOptions options;
  options.input = testing::cells_of({atlas.write(dir.file("a.h5ad"))});
  options.output_dir = dir.file("out");
  options.shard_size = 200;
  std::stop_source stop;
  options.stop = stop.get_token();
  options.progress = [&](const Progress& p) {
    if (p.done > 400) stop.request_stop();
  };
  error_of(options, ErrorKind::kCancelled);
  options.stop = {};
  options.progress = {};
  options.existing = ExistingTarget::kResume;
  const auto refusal = [&](auto change) {
    ConvertOptions other = options;
    change(other);
    const std::string message = error_of(other, ErrorKind::kInvalidArgument);
    EXPECT_THAT(message, Not(HasSubstr("{")));
    return message;
  };
  EXPECT_THAT(refusal([](auto& o) { o.shard_size = 100; }),
              HasSubstr("shard_size was 200, now 100"));
  EXPECT_THAT(refusal([](auto& o) { o.gene_order = format::shard::GeneOrder::kMean; }),
              HasSubstr("gene_order was 'source', now 'mean'"));
  EXPECT_THAT(refusal([](auto& o) { o.shuffle = true; }),
              HasSubstr("shuffle_seed was not given, now 0"));
  std::filesystem::copy_file(dir.file("a.h5ad"), dir.file("b.h5ad"));
  EXPECT_THAT(refusal([&](auto& o) {
                o.input = testing::cells_of({dir.file("a.h5ad"), dir.file("b.h5ad")});
              }),
              HasSubstr("there were 1 inputs, now there are 2"));
  EXPECT_THAT(refusal([&](auto& o) { o.input = testing::cells_of({dir.file("b.h5ad")}); }),
              HasSubstr("the path of input 1 was '" + dir.file("a.h5ad")));
  SmallAtlas changed({.n_cells = 901, .n_genes = 50});
  std::filesystem::remove(dir.file("a.h5ad"));
  changed.write(dir.file("a.h5ad"));
  EXPECT_THAT(refusal([&](auto& o) { o.input = testing::cells_of({dir.file("a.h5ad")}); }),
              HasSubstr("what input 1 holds has changed"));
}

TEST(ConversionPlan, AJournalWithAnotherPlanIsDescribedWhateverItHolds) {
  for (const std::string before : {"", "plan B", "[]", "{}", R"({"sources": 3})",
                                   R"({"sources": [3]})", R"({"sources": [{"path": 3}]})"})
    EXPECT_FALSE(plan_difference(before, R"({"sources": [{"path": "a", "layer": "X"}]})").empty());
}

}  // namespace
}  // namespace cellfeed::convert
