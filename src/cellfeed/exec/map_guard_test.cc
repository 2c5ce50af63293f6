#include "cellfeed/exec/map_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::exec {
namespace {

// A mapped file of four pages of ones.
class MappedFile {
 public:
  MappedFile() : path_(dir_.write("file", std::string(size(), '\1'))) {
    FILE* file = std::fopen(path_.c_str(), "r+");
    data_ =
        static_cast<const char*>(::mmap(nullptr, size(), PROT_READ, MAP_SHARED, ::fileno(file), 0));
    std::fclose(file);
  }
  ~MappedFile() { ::munmap(const_cast<char*>(data_), size()); }
  void shorten(std::size_t n_pages) const {
    ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(n_pages * page())), 0);
  }
  static std::size_t page() { return static_cast<std::size_t>(::getpagesize()); }
  static std::size_t size() { return 4 * page(); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(data_, size())); }
  char at(std::size_t page_number) const {
    return *static_cast<const volatile char*>(data_ + page_number * page());
  }

 private:
  const testing::TempDir dir_;
  const std::string path_;
  const char* data_ = nullptr;
};

TEST(MapGuard, LostPagesAreZerosAndAreKnown) {
  const MappedFile file, other;
  const MapGuard guard(file.bytes()), other_guard(other.bytes());
  EXPECT_EQ(file.at(3), 1);
  EXPECT_FALSE(guard.has_lost_pages());
  file.shorten(2);
  EXPECT_FALSE(guard.has_lost_pages());
  EXPECT_EQ(file.at(2), 0);
  EXPECT_TRUE(guard.has_lost_pages());
  EXPECT_EQ(file.at(3), 0);
  EXPECT_EQ(file.at(1), 1);
  EXPECT_FALSE(other_guard.has_lost_pages());
  EXPECT_EQ(other.at(3), 1);
}

TEST(MapGuard, ManyThreadsLoseOnePage) {
  const MappedFile file;
  const MapGuard guard(file.bytes());
  file.shorten(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      EXPECT_EQ(file.at(static_cast<std::size_t>(i) % 4), 0);
      EXPECT_TRUE(guard.has_lost_pages());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(MapGuard, TheNextGuardHasLostNothing) {
  for (int round = 0; round < 3; ++round) {
    const MappedFile file;
    const MapGuard guard(file.bytes());
    EXPECT_FALSE(guard.has_lost_pages());
    file.shorten(0);
    EXPECT_EQ(file.at(0), 0);
    EXPECT_TRUE(guard.has_lost_pages());
  }
}

void end_with_seven(int) { ::_exit(7); }

TEST(MapGuardDeathTest, WhatIsNotGuardedEndsTheProcessAsEver) {
  if (testing::kSanitizer) GTEST_SKIP() << "a sanitizer answers the signal itself";
  const MappedFile guarded, file;
  const MapGuard guard(guarded.bytes());
  file.shorten(0);
  EXPECT_EXIT(file.at(0), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(::raise(SIGBUS), ::testing::KilledBySignal(SIGBUS), "");
}

TEST(MapGuardDeathTest, WhatIsNotGuardedGoesToTheHandlerOfOthers) {
  const MappedFile guarded, file;
  const MapGuard guard(guarded.bytes());
  file.shorten(0);
  guarded.shorten(0);
  const auto with_another_handler = [&](bool is_ours) {
    ::signal(SIGBUS, end_with_seven);
    take_lost_page_signals();
    if (!is_ours) return file.at(0);
    ::_exit(guarded.at(0) == 0 && guard.has_lost_pages() ? 0 : 1);
  };
  EXPECT_EXIT(with_another_handler(false), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(with_another_handler(true), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cellfeed::exec
