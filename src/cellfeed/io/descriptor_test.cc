// More open files than the process may have descriptors.
#include "cellfeed/io/descriptor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

using testing::run_in_child;
using testing::TempDir;

constexpr int kLimit = 64;
constexpr std::size_t kFiles = 300;
constexpr std::size_t kBytes = 100'000;  // more than is copied out of a map

std::byte content(std::size_t file) { return static_cast<std::byte>(file % 251); }

// Sources of kFiles files, in a process that may have kLimit open.
struct ManyFiles {
  explicit ManyFiles(FileAccess access) {
    const rlimit limit{kLimit, kLimit};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    for (std::size_t file = 0; file < kFiles; ++file) {
      const std::vector<std::byte> bytes(kBytes, content(file));
      paths.push_back(dir.write(std::to_string(file), bytes));
      sources.push_back(open_local_file(paths.back(), {.access = access}));
    }
  }
  bool reads(std::size_t file) const {
    std::vector<std::byte> out(kBytes);
    sources[file]->read(0, out);
    return std::ranges::all_of(out, [&](std::byte byte) { return byte == content(file); });
  }

  TempDir dir;
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<ByteSource>> sources;
};

std::ptrdiff_t n_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

bool read_in_any_order(FileAccess access) {
  const std::ptrdiff_t inherited = n_descriptors();
  const ManyFiles files(access);
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i)
    if (const std::size_t file = random() % kFiles;
        !files.reads(file) || !files.sources[file]->is_unchanged())
      return false;
  // The rest of the process has its share; a ring is one more.
  return n_descriptors() - inherited <= kLimit / 2 + 1;
}

bool throws_lost(const ByteSource& source) {
  std::vector<std::byte> out(10);
  try {
    source.read(0, out);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kIo && std::strstr(error.what(), "ulimit -n") != nullptr;
  }
  return false;
}

TEST(DescriptorsInFork, MappedFilesAreReadInAnyOrder) {
  EXPECT_EQ(run_in_child([] { return read_in_any_order(FileAccess::kMap); }), 0);
}

TEST(DescriptorsInFork, FilesThatAreNotMappedToo) {
  EXPECT_EQ(run_in_child([] { return read_in_any_order(FileAccess::kPread); }), 0);
}

TEST(DescriptorsInFork, ReadsThroughARingToo) {
  EXPECT_EQ(run_in_child([] { return read_in_any_order(FileAccess::kUring); }), 0);
}

TEST(DescriptorsInFork, RelativeNamesLastWhenTheProcessMoves) {
  EXPECT_EQ(
      run_in_child([] {
        const TempDir dir;
        const rlimit limit{kLimit, kLimit};
        ::setrlimit(RLIMIT_NOFILE, &limit);
        std::vector<std::unique_ptr<ByteSource>> sources;
        if (::chdir(dir.path().c_str()) != 0) return false;
        for (int file = 0; file < 100; ++file) {
          dir.write(std::to_string(file), "abc");
          sources.push_back(open_local_file(std::to_string(file), {.access = FileAccess::kPread}));
        }
        if (::chdir("/") != 0) return false;
        std::byte byte[1];
        for (const auto& source : sources) source->read(0, byte);
        return true;
      }),
      0);
}

// A file of the same name is never read for the one that was opened.
TEST(DescriptorsInFork, FilesThatLoseTheirNamesAreNoOthers) {
  EXPECT_EQ(run_in_child([] {
              const ManyFiles files(FileAccess::kPread);
              const std::vector<std::byte> other(kBytes, std::byte{255});
              for (std::size_t file = 0; file < kFiles; ++file)
                std::filesystem::rename(files.dir.write("new", other), files.paths[file]);
              std::size_t n_lost = 0;
              for (std::size_t file = 0; file < kFiles; ++file) {
                if (throws_lost(*files.sources[file]))
                  ++n_lost;
                else if (!files.reads(file))
                  return false;
              }
              return n_lost > kFiles / 2;
            }),
            0);
}

TEST(DescriptorsInFork, MapsOutliveTheName) {
  EXPECT_EQ(run_in_child([] {
              const ManyFiles files(FileAccess::kMap);
              for (const std::string& path : files.paths) std::filesystem::remove(path);
              for (std::size_t file = 0; file < kFiles; ++file)
                if (!files.reads(file) || !files.sources[file]->is_unchanged()) return false;
              return true;
            }),
            0);
}

TEST(DescriptorsInFork, FilesThatAreWrittenOverAreFoundOut) {
  EXPECT_EQ(run_in_child([] {
              const ManyFiles files(FileAccess::kMap);
              for (const std::string& path : files.paths) {
                std::filesystem::last_write_time(
                    path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
              }
              return std::ranges::none_of(
                  files.sources, [](const auto& source) { return source->is_unchanged(); });
            }),
            0);
}

TEST(DescriptorsInFork, ManyThreadsTakeThemFromOneAnother) {
  EXPECT_EQ(run_in_child([] {
              const ManyFiles files(FileAccess::kPread);
              std::atomic<bool> is_right{true};
              std::vector<std::thread> threads;
              for (unsigned seed = 0; seed < 4; ++seed)
                threads.emplace_back([&, seed] {
                  std::mt19937 random(seed);
                  try {
                    for (int i = 0; i < 1'000; ++i)
                      if (!files.reads(random() % kFiles)) is_right = false;
                  } catch (const Error& error) {
                    std::fprintf(stderr, "%s\n", error.what());
                    is_right = false;
                  }
                });
              for (std::thread& thread : threads) thread.join();
              return is_right.load();
            }),
            0);
}

}  // namespace
}  // namespace cellfeed::io
