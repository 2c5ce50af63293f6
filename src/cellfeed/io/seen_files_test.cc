// SeenFiles: every kind of change of a file is seen, and nothing else is taken for one.
#include "cellfeed/io/seen_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "cellfeed/base/wall_clock.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::io {
namespace {

namespace fs = std::filesystem;

class SeenFilesOfAFolder : public ::testing::Test {
 protected:
  SeenFilesOfAFolder() {
    fs::create_directories(dir_.file("a/X/data"));
    fs::create_directories(dir_.file("a/obs"));
    for (const char* name : {"zarr.json", "X/data/0", "X/data/1", "obs/0", "X/other"}) write(name);
  }
  void write(const std::string& name, std::string_view text = "text") const {
    dir_.write("a/" + name, text);
  }
  std::string path(const std::string& name) const { return dir_.file("a/" + name); }
  std::shared_ptr<const SeenFiles> look() const {
    return SeenFiles::look(
        dir_.file("a"), {.names = {"zarr.json", ".zgroup"}, .folders = {"X/data", "obs", "uns"}});
  }
  // Of all of them, as they are now.
  std::string compare_all(const SeenFiles& seen) const {
    for (const char* name : {"zarr.json", ".zgroup", "X/data/0", "X/data/1", "X/data/2", "obs/0",
                             "X/other", "X/data", "uns/0"})
      seen.compare(name, status_of(path(name)));
    return seen.changed();
  }
  // Another file of these bytes in its place, of the same size and time.
  void replace(const std::string& name) const {
    const auto time = fs::last_write_time(path(name));
    write(name + ".new", "TEXT");
    fs::last_write_time(path(name + ".new"), time);
    fs::rename(path(name + ".new"), path(name));
  }

  testing::TempDir dir_;
};

TEST_F(SeenFilesOfAFolder, WhatDoesNotChangeIsTheSame) {
  const auto seen = look();
  EXPECT_EQ(seen->n_files(), 4);
  EXPECT_EQ(compare_all(*seen), "");
  EXPECT_EQ(look()->mark(), seen->mark());
  write("X/other", "another");
  write("Y", "another");
  EXPECT_EQ(look()->mark(), seen->mark());
  EXPECT_EQ(compare_all(*seen), "");
}

TEST_F(SeenFilesOfAFolder, EveryKindOfChangeIsAnother) {
  const auto expect_another = [&](const SeenFiles& seen, const std::string& name) {
    EXPECT_FALSE(seen.compare(name, status_of(path(name)))) << name;
  };
  for (const char* name : {"2", "3", "4", "5"}) write(std::string("X/data/") + name);
  const auto seen = look();
  write("X/data/0", "longer text");
  write("X/data/1");  // the same, at another time
  replace("X/data/2");
  write("X/data/9");
  fs::remove(path("X/data/3"));
  fs::rename(path("X/data/4"), path("X/data/x"));
  fs::rename(path("X/data/5"), path("X/data/4"));
  fs::rename(path("X/data/x"), path("X/data/5"));
  write(".zgroup");
  fs::remove(path("zarr.json"));
  // In place, with its time put back.
  const auto time = fs::last_write_time(path("obs/0"));
  write("obs/0", "TEXT");
  fs::last_write_time(path("obs/0"), time);
  for (const char* name : {"0", "1", "2", "9", "3", "4", "5"})
    expect_another(*seen, std::string("X/data/") + name);
  for (const char* name : {".zgroup", "zarr.json", "obs/0"}) expect_another(*seen, name);
  EXPECT_EQ(seen->changed(), "X/data/0");
  EXPECT_NE(look()->mark(), seen->mark());
}

TEST_F(SeenFilesOfAFolder, ItIsLookedAtOnceNothingCanChangeWithoutATrace) {
  const std::int64_t written_ns = status_of(path("obs/0")).changed_ns;
  look();
  EXPECT_GE(wall_clock_ns(), written_ns + 2'000'000'000);
}

TEST_F(SeenFilesOfAFolder, AFileOfTheFutureIsWaitedForTwoSecondsAtMost) {
  fs::last_write_time(path("obs/0"), fs::file_time_type::clock::now() + std::chrono::hours(9));
  const auto seen = look();
  EXPECT_EQ(compare_all(*seen), "");
  write("obs/0");
  EXPECT_EQ(compare_all(*seen), "obs/0");
}

TEST_F(SeenFilesOfAFolder, OneThatIsWrittenToAllTheTimeIsRefused) {
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    while (!is_over) write("obs/0");
  });
  EXPECT_NE(testing::error_of([&] { look(); }, ErrorKind::kCorruptData)
                .find("written to while it was opened"),
            std::string::npos);
  is_over = true;
  writer.join();
}

TEST_F(SeenFilesOfAFolder, LinksAreFollowedAndThoseThatLeadRoundAreRefused) {
  fs::create_directory(dir_.file("elsewhere"));
  dir_.write("elsewhere/0", std::string_view("text"));
  fs::create_directory_symlink(dir_.file("elsewhere"), path("uns"));
  const auto seen = look();
  EXPECT_EQ(seen->n_files(), 5);
  dir_.write("elsewhere/0", std::string_view("another"));
  EXPECT_EQ(compare_all(*seen), "uns/0");
  fs::create_directory_symlink(path("obs"), path("obs/round"));
  EXPECT_NE(testing::error_of([&] { look(); }), "no error");
}

TEST(SeenFiles, WhatIsNotOnThisMachineIsToldByItsNumber) {
  const testing::MemoryPlace place;
  const std::vector<std::byte> bytes(10);
  for (const char* name : {"a/obs/0", "a/obs/1", "a/zarr.json"})
    place.files().put(place.file(name), bytes);
  const auto look = [&] {
    return SeenFiles::look(place.file("a"),
                           {.names = {"zarr.json", ".zgroup"}, .folders = {"obs", "uns"}});
  };
  auto seen = look();
  const auto expect_another = [&](const std::string& name) {
    const auto now = look();
    EXPECT_NE(now->mark(), seen->mark()) << name;
    for (const std::string& each : {std::string("obs/0"), std::string("obs/1"), name})
      EXPECT_EQ(seen->compare(each, status_of(place.file("a/" + each))), each != name);
    EXPECT_EQ(seen->changed(), name);
    seen = now;
  };
  EXPECT_EQ(look()->n_files(), 3);
  EXPECT_EQ(look()->mark(), look()->mark());
  place.files().put(place.file("a/obs/1"), bytes);
  expect_another("obs/1");
  for (const char* name : {"zarr.json", "obs/2", ".zgroup", "uns/0"}) {
    place.files().put(place.file(std::string("a/") + name), bytes);
    expect_another(name);
    place.files().remove(place.file(std::string("a/") + name));
    expect_another(name);
  }
  // The names belong to the mark: of two files, which is which.
  const auto before = look()->mark();
  place.files().remove(place.file("a/obs/0"));
  place.files().put(place.file("a/obs/3"), bytes);
  EXPECT_NE(look()->mark(), before);
}

}  // namespace
}  // namespace cellfeed::io
