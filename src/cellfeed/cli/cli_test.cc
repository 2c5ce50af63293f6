// The program as users run it: exit codes, what it prints and where, what it leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cellfeed/base/number_text.h"
#include "cellfeed/cli/program.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/run_program.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::cli {
namespace {

using cellfeed::testing::Outcome;
using cellfeed::testing::run;
using cellfeed::testing::SmallAtlas;
using cellfeed::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Program : public ::testing::Test {
 protected:
  Program() { input_ = SmallAtlas({.n_cells = 200, .n_genes = 60}).write(dir_.file("a.h5ad")); }

  Outcome shard(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"shard",         input_,         "--output-dir",
                                          dir_.file(name), "--shard-size", "80"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  TempDir dir_;
  std::string input_;
};

TEST_F(Program, HelpAndVersionAreAnswersNotErrors) {
  EXPECT_EQ(run({"--help"}).code, 0);
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, StartsWith("cellfeed 0."));
  for (const char* verb : {"shard", "verify", "info", "export", "simulate"}) {
    const Outcome help = run({verb, "--help"});
    EXPECT_EQ(help.code, 0) << verb;
    EXPECT_THAT(help.out, HasSubstr("Usage")) << verb;
  }
  EXPECT_THAT(run({"shard", "--help"}).out,
              AllOf(HasSubstr("[default: 100000]"), HasSubstr("CELLS")));
}

TEST_F(Program, WrongUsageIsExitCodeTwoAndSaysWhereHelpIs) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"shred"},
           {"shard", input_},
           {"shard", "--output-dir", dir_.file("out")},
           {"shard", input_, "--output-dir", dir_.file("out"), "--shard-size", "0"},
           {"shard", input_, "--output-dir", dir_.file("out"), "--memory-budget", "lots"},
           {"shard", input_, "--output-dir", dir_.file("out"), "--gene-order", "random"},
           {"shard", input_, "--output-dir", dir_.file("out"), "--resume", "--overwrite"},
           {"info"},
           {"verify", "--no-such-flag", dir_.path()}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("cellfeed: error: "), HasSubstr("--help")));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out")));
}

TEST_F(Program, FailuresAreExitCodeOneAndOneLine) {
  std::ofstream(dir_.file("text.h5ad")) << "this is not HDF5";
  std::ofstream(dir_.file("empty.h5ad"));
  for (const std::string& path :
       {dir_.file("missing.h5ad"), dir_.file("text.h5ad"), dir_.file("empty.h5ad")}) {
    for (const Outcome& outcome :
         {run({"shard", path, "--output-dir", dir_.file("out")}), run({"info", path})}) {
      EXPECT_EQ(outcome.code, 1) << path;
      EXPECT_THAT(outcome.err, AllOf(StartsWith("cellfeed: error: "), HasSubstr(path)));
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out")));
}

TEST_F(Program, AWrongArgumentIsNamedWithWhatIsAllowedAndTheNearestName) {
  const std::string out = dir_.file("out");
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"shrad", input_}, {"'shrad'", "did you mean 'shard'?", "verify"}},
           {{"shard", input_, "--outptu-dir", out}, {"--outptu-dir", "did you mean --output-dir?"}},
           {{"shrad", "--resume"}, {"'shrad'", "did you mean 'shard'?"}},
           {{"cache"}, {"a verb is needed: list, clear, fetch or verify", "cellfeed cache --help"}},
           {{"cache", "lst"}, {"'lst'", "did you mean 'list'?", "cellfeed cache --help"}},
           {{"series", "build", input_}, {"--output-dir", "cellfeed series build --help"}},
           {{"series", "build", input_, out, "--windw", "3"},
            {"--windw", "did you mean --window?", "cellfeed series build --help"}},
           {{"shard", input_, "--output-dir", out, "--shard-size", "1e2"},
            {"--shard-size", "whole number", "'1e2'", "write it out: 100"}},
           {{"shard", input_, "--output-dir", out, "--layout", "pack"},
            {"--layout", "packed or dense", "'pack'", "did you mean packed?"}},
           {{"simulate", "--like", input_, "--output", out, "--cells", "0"},
            {"--cells", "of at least 1", "'0'"}},
           {{"simulate", "--like", input_, "--output", out, "--cells", "10k"},
            {"--cells", "of at least 1", "'10k'", "write it out: 10000"}},
           {{"bench", input_, "--entropy", "2"}, {"--entropy", "from 0 to 1", "'2'"}},
           {{"bench", input_, "--seconds", "0"}, {"--seconds", "above 0", "'0'"}},
           {{"verify", out, "--threads", "99999"}, {"--threads", "from 1 to 1024", "'99999'"}},
       }) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
  }
}

TEST_F(Program, AFileThatCannotBeWrittenIsNamedAndNothingElse) {
  const std::string output = dir_.file("none/b.h5ad");
  for (const Outcome& outcome :
       {run({"simulate", "--like", input_, "--cells", "9", "--output", output}),
        run({"export", input_, "--output", output})}) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err, "cellfeed: error: " + output +
                               ": cannot be written: there is no folder '" + dir_.file("none") +
                               "'; make it first\n");
  }
}

TEST_F(Program, InfoOfSeveralPathsIsOneJsonDocument) {
  const auto both = nlohmann::json::parse(run({"info", "--quiet", "--json", input_, input_}).out);
  ASSERT_TRUE(both.is_array());
  EXPECT_EQ(both.size(), 2);
  EXPECT_EQ(both.at(0), nlohmann::json::parse(run({"info", "--json", input_}).out));
  const std::string glob = input_.substr(0, input_.size() - 2) + "*";
  EXPECT_EQ(both.at(0), nlohmann::json::parse(run({"info", "--json", glob}).out));
}

TEST_F(Program, ShardsThenInfoVerifyAndExportAgree) {
  const Outcome sharded = shard("out", {"--json", "--quiet"});
  ASSERT_EQ(sharded.code, 0) << sharded.err;
  EXPECT_EQ(sharded.err, "");
  EXPECT_EQ(nlohmann::json::parse(sharded.out).at("n_shards"), 3);

  const auto info = nlohmann::json::parse(run({"info", "--json", dir_.file("out")}).out);
  EXPECT_EQ(info.at("n_cells"), 200);
  EXPECT_EQ(info.at("n_genes"), 60);
  EXPECT_EQ(info.at("layout"), "packed");
  EXPECT_EQ(info.at("obs").at(0).at("name"), "cell_type");
  EXPECT_EQ(info.at("obs").at(0).at("n_categories"), 4);
  EXPECT_EQ(info.at("not_finite"), 0);
  EXPECT_EQ(info.at("nnz"), nlohmann::json::parse(run({"info", "--json", input_}).out).at("nnz"));
  EXPECT_THAT(run({"info", dir_.file("out")}).out, HasSubstr("200"));

  EXPECT_EQ(run({"verify", dir_.file("out")}).code, 0);
  EXPECT_EQ(run({"export", dir_.file("out"), "--output", dir_.file("back.h5ad")}).code, 0);
  EXPECT_EQ(testing::read_back(dir_.file("back.h5ad")).rows, testing::read_back(input_).rows);
  EXPECT_EQ(run({"export", dir_.file("out"), "--output", dir_.file("back.h5ad")}).code, 1);
  EXPECT_EQ(
      run({"export", dir_.file("out"), "--output", dir_.file("back.h5ad"), "--overwrite"}).code, 0);
}

TEST_F(Program, VerifyNamesShardAndBytesOfDamage) {
  ASSERT_EQ(shard("out").code, 0);
  const std::string path = dir_.file("out/shard_000001.cells");
  constexpr std::int64_t kPlace = 4200;  // behind the header, inside a record
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(kPlace);
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(kPlace);
  file.put(byte);
  file.close();
  const Outcome plain = run({"verify", dir_.file("out")});
  EXPECT_EQ(plain.code, 1);
  EXPECT_THAT(plain.out,
              AllOf(HasSubstr("shard_000001.cells"), HasSubstr("segment 0"), HasSubstr("bytes ")));
  const Outcome machine = run({"verify", "--json", dir_.file("out")});
  EXPECT_EQ(machine.code, 1);
  const auto damage = nlohmann::json::parse(machine.out).at("damages").at(0);
  EXPECT_EQ(damage.at("shard"), 1);
  EXPECT_LE(damage.at("begin").get<std::int64_t>(), kPlace);
  EXPECT_GT(damage.at("end").get<std::int64_t>(), kPlace);
}

TEST_F(Program, SimulateMakesACellPerRequestAndSaysWhatItDid) {
  const Outcome outcome = run({"simulate", "--like", input_, "--cells", "300", "--output",
                               dir_.file("big.h5ad"), "--seed", "5"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("thinned"));
  EXPECT_EQ(testing::read_back(dir_.file("big.h5ad")).rows.size(), 300);
  EXPECT_THAT(run({"simulate", "--like", input_, "--cells", "9", "--no-thin", "--output",
                   dir_.file("b.h5ad")})
                  .out,
              HasSubstr("copies"));
}

TEST_F(Program, AWrongSeedIsRefusedAsItWasGiven) {
  for (const std::string seed : {"x", "-1", "1.5", "18446744073709551616", ""}) {
    const Outcome outcome =
        run({"shard", "--shuffle", "--seed", seed, "--output-dir", dir_.file("out"), input_});
    EXPECT_EQ(outcome.code, 2) << seed;
    EXPECT_THAT(outcome.err, HasSubstr("'" + seed + "'"));
    EXPECT_FALSE(std::filesystem::exists(dir_.file("out"))) << seed;
  }
  EXPECT_EQ(run({"shard", "--shuffle", "--seed", "18446744073709551615", "--output-dir",
                 dir_.file("out"), input_})
                .code,
            0);
}

TEST_F(Program, CtrlCLeavesNoTemporaryFilesAndExits130) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  const std::string input =
      SmallAtlas({.n_cells = 20000, .n_genes = 400}).write(dir_.file("large.h5ad"));
  const std::string output = dir_.file("out");
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(99);
    std::vector<std::string> arguments = {"cellfeed", "shard",        input, "--output-dir",
                                          output,     "--shard-size", "5"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    ::_exit(run_program(static_cast<int>(argv.size()), argv.data()));
  }
  for (int i = 0; i < 2000 && !std::filesystem::exists(output + "/shard_000000.cells"); ++i)
    ::usleep(5000);
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  for (const auto& entry : std::filesystem::directory_iterator(output))
    EXPECT_FALSE(io::is_temp_name(entry.path().filename().string())) << entry.path();
  EXPECT_FALSE(std::filesystem::exists(output + "/shard_metadata.json"));
}

TEST(ProgressText, NumbersAndDurationsReadWell) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(duration_text(0.2), "1 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
}

}  // namespace
}  // namespace cellfeed::cli
