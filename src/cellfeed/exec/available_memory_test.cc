#include "cellfeed/exec/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::exec {
namespace {

constexpr const char* kMeminfo = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\n";

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = dir_.file(path);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::int64_t available(const std::string& membership, const std::string& meminfo = kMeminfo) {
    return available_memory(dir_.write("meminfo", meminfo), dir_.path(),
                            dir_.write("membership", membership));
  }

  testing::TempDir dir_;
};

TEST_F(AvailableMemory, GivesADefaultBudgetThatASmallGroupCanHold) {
  constexpr std::int64_t kMost = 512'000'000;
  EXPECT_EQ(default_memory_budget(kMost, 64'000'000'000), kMost);
  EXPECT_EQ(default_memory_budget(kMost, 1'000'000'000), 250'000'000);
  EXPECT_EQ(default_memory_budget(kMost, 128'000'000), 32'000'000);
  EXPECT_EQ(default_memory_budget(kMost, 192'000'000), 48'000'000);
  EXPECT_EQ(default_memory_budget(kMost, 1), 32'000'000);
  EXPECT_EQ(default_memory_budget(kMost, 0), kMost);  // the system does not say
  EXPECT_EQ(default_memory_budget(1000, 1), 1000);
}

TEST_F(AvailableMemory, IsWhatTheSystemSaysWithoutALimit) {
  EXPECT_EQ(available("0::/\n"), 4000 * 1024);
  EXPECT_EQ(available(""), 4000 * 1024);
  write("memory.max", "max\n");
  EXPECT_EQ(available("0::/\n"), 4000 * 1024);
}

TEST_F(AvailableMemory, TakesTheStrictestLimitOfVersion2) {
  write("a/memory.max", "3000000\n");
  write("a/b/memory.max", "max\n");
  write("a/b/memory.high", "2000000\n");
  EXPECT_EQ(available("0::/a/b\n"), 2'000'000);
  EXPECT_EQ(available("0::/a\n"), 3'000'000);
}

TEST_F(AvailableMemory, TakesTheLimitOfVersion1) {
  write("memory/job/memory.limit_in_bytes", "1000000\n");
  EXPECT_EQ(available("4:memory:/job\n0::/\n"), 1'000'000);
  write("memory/free/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available("4:memory:/free\n"), 4000 * 1024);
}

TEST_F(AvailableMemory, IsNothingWhereTheSystemDoesNotSay) {
  EXPECT_EQ(available("", "nonsense"), 0);
  EXPECT_EQ(available("", ""), 0);
}

TEST(AvailableMemoryHere, IsSomething) { EXPECT_GT(available_memory(), 1 << 20); }

}  // namespace
}  // namespace cellfeed::exec
