#include "cellfeed/exec/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::exec {
namespace {

class CpuQuota : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = dir_.file(path);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  double quota(const std::string& membership) {
    return cpu_quota(dir_.path(), dir_.write("membership", membership));
  }

  testing::TempDir dir_;
};

TEST_F(CpuQuota, ReadsVersion2AndTakesTheStrictestAncestor) {
  write("cpu.max", "800000 100000\n");
  write("a/cpu.max", "250000 100000\n");
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(quota("0::/a/b\n"), 2.5);
  EXPECT_DOUBLE_EQ(quota("0::/\n"), 8);
}

TEST_F(CpuQuota, ReadsVersion1) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "150000");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(quota("7:memory:/job\n4:cpu,cpuacct:/job\n"), 1.5);
  EXPECT_GT(quota("4:cpuset:/job\n"), 1000);
}

TEST_F(CpuQuota, IsLargeWithoutALimitOrWithDamagedFiles) {
  EXPECT_GT(quota(""), 1000);
  EXPECT_GT(quota("nonsense\n0::/gone\n"), 1000);
  write("cpu.max", "-5 x");
  EXPECT_GT(quota("0::/\n"), 1000);
}

TEST(ThreadCount, IsTheLeastOfAffinityAndQuota) {
  EXPECT_EQ(thread_count_of({.allowed = 8, .online = 64}), 8);
  EXPECT_EQ(thread_count_of({.allowed = 8, .online = 64, .quota = 2.5}), 3);
  EXPECT_EQ(thread_count_of({.allowed = 8, .online = 64, .quota = 0.1}), 1);
  EXPECT_EQ(thread_count_of({.allowed = 0, .online = 64, .quota = 0}), 1);
}

TEST(ThreadCount, RanksShareWhatNoneHasForItself) {
  EXPECT_EQ(thread_count_of({.allowed = 64, .online = 64, .local_ranks = 8}), 8);
  EXPECT_EQ(thread_count_of({.allowed = 8, .online = 64, .local_ranks = 8}), 8);  // bound
  EXPECT_EQ(thread_count_of({.allowed = 64, .online = 64, .quota = 16, .local_ranks = 8}), 2);
  EXPECT_EQ(thread_count_of({.allowed = 4, .online = 4, .local_ranks = 8}), 1);
}

TEST(ThreadCount, LocalRanksAreReadWithCare) {
  EXPECT_EQ(local_rank_count("8"), 8);
  for (const char* text :
       {static_cast<const char*>(nullptr), "", "0", "-2", "8x", "many", "99999999999999999999"})
    EXPECT_EQ(local_rank_count(text), 1);
}

TEST(AffinityCpuCount, IsAtLeastOne) { EXPECT_GE(affinity_cpu_count(), 1); }

}  // namespace
}  // namespace cellfeed::exec
