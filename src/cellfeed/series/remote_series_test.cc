// Series in a file system that is not the operating system's: what is built, appended and read
// there is what a local disk has, also where its calls fail, each in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/series/append.h"
#include "cellfeed/series/build.h"
#include "cellfeed/series/kept_folder.h"
#include "cellfeed/series/verify.h"
#include "cellfeed/series/windows.h"
#include "cellfeed/testing/faulty_file_system.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/own_scratch.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::series {
namespace {

using cellfeed::testing::FaultyFileSystem;
using cellfeed::testing::MemoryFileSystem;
using cellfeed::testing::TempDir;
using ::testing::HasSubstr;

constexpr int kMostCalls = 1'000;
constexpr std::int64_t kWindow = 5, kHorizon = 2;

using Files = std::map<std::string, std::vector<std::byte>>;

// Rows [first, end) of some entities, by a formula.
std::string csv_of(const std::vector<std::string>& entities, int first, int end) {
  std::string text = "e,t,a,b\n";
  for (std::size_t e = 0; e < entities.size(); ++e)
    for (int t = first; t < end; ++t)
      text += fmt::format("{},{},{},{}\n", entities[e], t, std::sin(t + 10.0 * double(e)), t * t);
  return text;
}

class RemoteSeries : public ::testing::Test {
 protected:
  RemoteSeries() {
    put(kRoot + "in/a.csv", csv_of({"x", "y"}, 0, 30));
    put(kRoot + "more/b.csv", csv_of({"y", "z"}, 30, 55));
  }
  void put(const std::string& path, const std::string& text) const {
    const auto bytes = std::as_bytes(std::span(text));
    files_->put(path, {bytes.begin(), bytes.end()});
  }
  static BuildOptions build(const std::string& output_dir, bool resume = false) {
    BuildOptions options;
    options.inputs = {kRoot + "in"};
    options.output_dir = output_dir;
    options.columns.entity = "e";
    options.columns.time = {"t"};
    options.threads = 1;
    options.resume = resume;
    return options;
  }
  static AppendOptions append(const std::string& dir) {
    AppendOptions options;
    options.inputs = {kRoot + "more"};
    options.dir = dir;
    options.threads = 1;
    return options;
  }
  static SeriesWindows windows_of(const std::string& dir, WindowOptions options = {}) {
    const auto rows = SeriesRows::open(dir);
    options.window = kWindow;
    options.horizon = kHorizon;
    options.features = options.targets = {0, 1};
    for (std::int64_t e = 0; e < rows->entities().size(); ++e) options.entities.push_back(e);
    return {rows, std::move(options)};
  }
  static std::vector<float> values_of(const SeriesWindows& windows) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(windows.size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::ssize(all) - 1 - std::int64_t(i);
    const auto n = static_cast<std::size_t>(windows.size() * (kWindow + kHorizon) * 2);
    std::vector<float> values(n);
    auto* const bytes = reinterpret_cast<std::byte*>(values.data());
    windows.copy(all, {bytes, bytes + windows.size() * windows.x_bytes(), nullptr}, 1);
    return values;
  }
  Files content_of(const std::string& dir) const {
    Files all;
    for (const std::string& path : files_->paths())
      if (path.starts_with(dir + "/")) all[path.substr(dir.size() + 1)] = *files_->content(path);
    return all;
  }
  // As those of a store with nothing but what was put there.
  void keep_only_inputs() const {
    for (const std::string& path : files_->paths())
      if (!path.starts_with(kRoot + "in/") && !path.starts_with(kRoot + "more/"))
        files_->remove(path);
    files_->remove_all(kOut);
  }
  // What fails at its k-th call, for all k: fn(failed) looks at what it left.
  template <typename Run, typename Look>
  int fail_each_call(const Run& run, const Look& look) const {
    for (int k = 0; k < kMostCalls; ++k) {
      std::string failed;
      {
        const auto faulty = std::make_shared<FaultyFileSystem>(files_, k);
        const io::FileSystemRegistration registration("series", faulty);
        try {
          run();
        } catch (const Error& error) {
          failed = error.what();
          EXPECT_THAT(failed, HasSubstr(FaultyFileSystem::kFault)) << "call " << k;
        }
        if (faulty->calls() <= k) return k;
      }
      const io::FileSystemRegistration registration("series", files_);
      look(failed);
    }
    ADD_FAILURE() << "it never ends";
    return 0;
  }

  inline static const std::string kRoot = "series://store/";
  inline static const std::string kOut = "series://store/out";
  const std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
  TempDir local_;
  const testing::OwnScratch scratch_;
};

TEST_F(RemoteSeries, AreThoseOfALocalDisk) {
  const io::FileSystemRegistration registration("series", files_);
  const std::string disk = local_.file("out");
  build_series(build(kOut));
  build_series(build(disk));
  EXPECT_EQ(values_of(windows_of(kOut)), values_of(windows_of(disk)));
  append_series(append(kOut));
  append_series(append(disk));
  EXPECT_EQ(values_of(windows_of(kOut)), values_of(windows_of(disk)));
  exec::ThreadPool pool(1);
  EXPECT_TRUE(verify_series(kOut, pool, {}).empty());
  const auto there = content_of(kOut);
  for (const std::string& name : io::Directory(disk).names()) {
    ASSERT_TRUE(there.contains(name)) << name;
    const auto file = io::open_file(disk + "/" + name);
    std::vector<std::byte> bytes(static_cast<std::size_t>(file->size()));
    file->read(0, bytes);
    EXPECT_EQ(there.at(name), bytes) << name;
  }
  EXPECT_EQ(std::ssize(there), std::ssize(io::Directory(disk).names()));
}

TEST_F(RemoteSeries, FindTheRowsOfATimeAsMappedOnesDo) {
  const io::FileSystemRegistration registration("series", files_);
  put(kRoot + "in/long.csv", csv_of({"long"}, -20'000, 20'000));
  const std::string disk = local_.file("out");
  for (const std::string& dir : {kOut, disk}) {
    build_series(build(dir));
    append_series(append(dir));
  }
  const auto remote = SeriesRows::open(kOut), mapped = SeriesRows::open(disk);
  const std::vector<std::int64_t> entities{0, 1, 2, 3, 2, 0};
  for (const std::int64_t time : {-20'001, -20'000, -19'999, -1, 0, 1, 13, 29, 30, 31, 54, 55, 56,
                                  19'998, 19'999, 20'000, 777'777})
    EXPECT_EQ(remote->first_rows_at(entities, time), mapped->first_rows_at(entities, time)) << time;
  for (std::int64_t e = 0; e < 4; ++e) {
    std::vector<std::int64_t> rows;
    remote->each_stretch(e, 0, remote->entities().n_rows(e), [&](std::int64_t row, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) rows.push_back(row + i);
    });
    EXPECT_EQ(remote->times(rows), mapped->times(rows));
  }
  WindowOptions some;
  some.from = 3;
  some.until = 41;
  EXPECT_EQ(values_of(windows_of(kOut, some)), values_of(windows_of(disk, some)));
}

TEST_F(RemoteSeries, CallsThatFailAreNamedAndABuildGoesOn) {
  Files whole;
  {
    const io::FileSystemRegistration registration("series", files_);
    build_series(build(kOut));
    whole = content_of(kOut);
  }
  keep_only_inputs();
  const int n_failed = fail_each_call([] { build_series(build(kOut)); },
                                      [&](const std::string& failed) {
                                        if (!content_of(kOut).contains("metadata.json")) {
                                          EXPECT_THROW(SeriesRows::open(kOut), Error);
                                        }
                                        const bool has_rest =
                                            content_of(kOut).contains(".building/plan.txt");
                                        if (!failed.empty() || has_rest)
                                          build_series(build(kOut, true));
                                        EXPECT_EQ(content_of(kOut), whole) << failed;
                                        keep_only_inputs();
                                      });
  EXPECT_GT(n_failed, 20);
}

TEST_F(RemoteSeries, CallsThatFailLeaveTheRowsBeforeAnAppendOrAllOfThem) {
  Files before, after;
  std::vector<float> old_values, new_values;
  {
    const io::FileSystemRegistration registration("series", files_);
    build_series(build(kOut));
    before = content_of(kOut);
    old_values = values_of(windows_of(kOut));
    append_series(append(kOut));
    after = content_of(kOut);
    new_values = values_of(windows_of(kOut));
  }
  const auto go_back = [&] {
    keep_only_inputs();
    for (const auto& [name, bytes] : before) files_->put(kOut + "/" + name, bytes);
  };
  go_back();
  bool is_longer_seen = false;
  const int n_failed = fail_each_call(
      [] { append_series(append(kOut)); },
      [&](const std::string& failed) {
        const auto now = content_of(kOut);
        const bool is_old = now.at("metadata.json") == before.at("metadata.json");
        is_longer_seen |= is_old && now.at("all_features.mmap") != before.at("all_features.mmap");
        EXPECT_EQ(values_of(windows_of(kOut)), is_old ? old_values : new_values) << failed;
        if (is_old) append_series(append(kOut));
        EXPECT_EQ(values_of(windows_of(kOut)), new_values) << failed;
        if (is_old) {
          EXPECT_EQ(content_of(kOut), after) << failed;
        }
        go_back();
      });
  EXPECT_GT(n_failed, 20);
  EXPECT_TRUE(is_longer_seen);
}

TEST_F(RemoteSeries, WhatOthersMayHaveKeptInTheFolderForTemporaryFilesIsRefused) {
  const io::FileSystemRegistration registration("series", files_);
  files_->make_directories(kOut);
  std::string kept;
  const auto keep = [&] {
    kept = KeptFolder(kOut, ".appending", "append to " + kOut).directory().path();
  };
  keep();
  keep();
  std::filesystem::permissions(kept, std::filesystem::perms(0777));
  try {
    keep();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.path(), kept);
    EXPECT_THAT(error.what(), HasSubstr("others may write to it"));
  }
}

}  // namespace
}  // namespace cellfeed::series
