#include "cellfeed/io/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "cellfeed/io/local_file.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

using testing::random_bytes;
using testing::TempDir;

// Holds nothing; remembers what it was asked.
class RecordingSource final : public ByteSource {
 public:
  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return bytes; }
  std::string_view backend_name() const override { return "recording"; }
  void read(std::int64_t, std::span<std::byte>) const override {}
  bool is_cached(std::span<const std::int64_t> offsets) const override {
    looks += std::ssize(offsets);
    return std::ranges::none_of(offsets, [this](auto offset) { return offset >= cold_from; });
  }
  void will_read(std::span<const ByteRange> ranges) const override {
    asked.insert(asked.end(), ranges.begin(), ranges.end());
  }

  std::int64_t bytes = std::int64_t{1} << 40;  // more than any memory
  std::int64_t cold_from = 0;
  mutable std::int64_t looks = 0;
  mutable std::vector<ByteRange> asked;

 private:
  std::string path_ = "recording";
};

// Items of 1000 bytes, 100 kB apart, in descending order.
std::int64_t ask(const ReadAhead& ahead, std::int64_t n) {
  return ahead.ask(n, [n](std::int64_t item, std::vector<ByteRange>& ranges) {
    ranges.push_back({(n - 1 - item) * 100'000, 1000});
  });
}

TEST(ReadAhead, LooksAtFewItemsAndAsksForNoneThatAreInMemory) {
  RecordingSource source;
  source.cold_from = source.size();
  EXPECT_EQ(ask(ReadAhead(source), 6400), 0);
  EXPECT_TRUE(source.asked.empty());
  EXPECT_EQ(source.looks, 50);
}

TEST(ReadAhead, LooksAtSomeOfTheCallsThatHaveFewItems) {
  RecordingSource source;
  source.cold_from = source.size();
  const ReadAhead ahead(source);
  for (int call = 0; call < 256; ++call) EXPECT_EQ(ask(ahead, 2), 0);
  EXPECT_EQ(source.looks, 4);
  source.cold_from = 0;
  int unseen = 0;
  while (ask(ahead, 2) == 0) ASSERT_LT(++unseen, 64);
  EXPECT_EQ(source.asked.size(), 2u);
}

TEST(ReadAhead, AsksForEveryItemOnceByOffset) {
  const RecordingSource source;
  EXPECT_EQ(ask(ReadAhead(source), 640), 640'000);
  ASSERT_EQ(source.asked.size(), 640u);
  for (std::int64_t i = 0; i < 640; ++i) {
    EXPECT_EQ(source.asked[i].offset, i * 100'000);
    EXPECT_EQ(source.asked[i].length, 1000);
  }
}

TEST(ReadAhead, JoinsNeighbours) {
  const RecordingSource source;
  const ReadAhead ahead(source);
  const std::int64_t bytes = ahead.ask(100, [](std::int64_t item, std::vector<ByteRange>& ranges) {
    ranges.push_back({item * 5000, 1000});
    ranges.push_back({(1 << 30) + item * 1000, 1000});
  });
  ASSERT_EQ(source.asked.size(), 2u);
  EXPECT_EQ(source.asked[0].length, 99 * 5000 + 1000);
  EXPECT_EQ(source.asked[1].length, 100'000);
  EXPECT_EQ(bytes, source.asked[0].length + source.asked[1].length);
}

TEST(ReadAhead, OnceSomethingWasMissingAsksWithoutLookingForAWhile) {
  RecordingSource source;
  const ReadAhead ahead(source);
  EXPECT_GT(ask(ahead, 64), 0);
  source.cold_from = source.size();
  source.looks = 0;
  int asked = 0;
  while (ask(ahead, 64) > 0) {
    EXPECT_EQ(source.looks, 0);
    ASSERT_LT(++asked, 1000);
  }
  EXPECT_GT(asked, 0);
  EXPECT_EQ(ask(ahead, 64), 0);
}

// A file of which so much memory is available.
struct Fitting {
  explicit Fitting(std::int64_t available) { memory = available; }
  std::int64_t ask_at(std::vector<std::int64_t> offsets) {
    return ahead.ask(std::ssize(offsets), [&](std::int64_t item, std::vector<ByteRange>& ranges) {
      ranges.push_back({offsets[static_cast<std::size_t>(item)], 1000});
    });
  }
  // Offset and length of what was asked for since the last call.
  std::vector<std::pair<std::int64_t, std::int64_t>> take_asked() {
    std::vector<std::pair<std::int64_t, std::int64_t>> asked;
    for (const ByteRange& range : source.asked) asked.emplace_back(range.offset, range.length);
    source.asked.clear();
    return asked;
  }

  static RecordingSource make_source() {
    RecordingSource source;
    source.bytes = kBytes;
    return source;
  }
  static constexpr std::int64_t kBytes = (10 << 20) + 100;
  std::int64_t memory = 0;
  RecordingSource source = make_source();
  ReadAhead ahead{source, {.available_memory = [this] { return memory; }}};
};

using Asked = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(ReadAhead, WidensCallByCallWhereEverythingFits) {
  Fitting file(2 * Fitting::kBytes);
  const std::int64_t widths[] = {8 << 10, 16 << 10, 32 << 10, 64 << 10, 64 << 10};
  std::int64_t at = 0;
  for (const std::int64_t width : widths) {
    at += 1 << 20;
    EXPECT_EQ(file.ask_at({at + 70'000}), width);
    EXPECT_EQ(file.take_asked(), (Asked{{at + 70'000 / width * width, width}}));
  }
}

TEST(ReadAhead, AsksForNothingTwiceWhereEverythingFits) {
  Fitting file(2 * Fitting::kBytes);
  for (int i = 0; i < 4; ++i) file.ask_at({5 << 20});
  file.take_asked();
  EXPECT_EQ(file.ask_at({(1 << 20) + 5000, 1 << 20, (1 << 20) + 60'000}), 64 << 10);
  EXPECT_EQ(file.ask_at({(1 << 20) + 30'000}), 0);
  EXPECT_EQ(file.take_asked(), (Asked{{1 << 20, 64 << 10}}));
  EXPECT_EQ(file.ask_at({(1 << 20) + 65'000}), 64 << 10);  // across into the next
  EXPECT_EQ(file.take_asked(), (Asked{{(1 << 20) + (64 << 10), 64 << 10}}));
}

TEST(ReadAhead, LongReadsAreNotWidened) {
  Fitting file(2 * Fitting::kBytes);
  for (int i = 0; i < 4; ++i) file.ask_at({5 << 20});
  file.take_asked();
  std::vector<std::int64_t> rows;
  for (int i = 0; i < 100; ++i) rows.push_back((1 << 20) + 20'000 + i * 1000);
  EXPECT_EQ(file.ask_at(rows), 104 << 10);
  EXPECT_EQ(file.take_asked(), (Asked{{(1 << 20) + (16 << 10), 104 << 10}}));
}

TEST(ReadAhead, AskedForInPartIsAskedForTheRest) {
  Fitting file(2 * Fitting::kBytes);
  file.ask_at({(1 << 20) + 20'000});  // 8 KiB, the third of its 64
  for (int i = 0; i < 3; ++i) file.ask_at({5 << 20});
  file.take_asked();
  file.ask_at({1 << 20});
  EXPECT_EQ(file.take_asked(), (Asked{{1 << 20, 16 << 10}, {(1 << 20) + (24 << 10), 40 << 10}}));
}

TEST(ReadAhead, StaysInsideTheFile) {
  Fitting file(2 * Fitting::kBytes);
  for (int i = 0; i < 4; ++i) file.ask_at({0});
  file.take_asked();
  file.ask_at({Fitting::kBytes - 1000});
  EXPECT_EQ(file.take_asked(), (Asked{{(10 << 20) - (64 << 10), (64 << 10) + 100}}));
}

TEST(ReadAhead, OfMoreThanHalfTheMemoryAsksForNoMoreThanNeeded) {
  Fitting file(2 * Fitting::kBytes - 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(file.ask_at({1 << 20}), 1000);
}

TEST(ReadAhead, CountsAllThatTheProcessReadsAhead) {
  Fitting first(2 * Fitting::kBytes);
  EXPECT_EQ(first.ask_at({1 << 20}), 8 << 10);
  Fitting second(2 * Fitting::kBytes);
  EXPECT_EQ(second.ask_at({1 << 20}), 1000);
  Fitting third(8 * Fitting::kBytes);
  EXPECT_EQ(third.ask_at({1 << 20}), 8 << 10);
}

TEST(ReadAhead, AsksAgainForWhatHasGone) {
  Fitting file(2 * Fitting::kBytes);
  file.ask_at({1 << 20});
  file.source.cold_from = Fitting::kBytes;
  for (int i = 0; i < 16; ++i) file.ask_at({1 << 20});  // until it looks
  file.take_asked();
  file.source.cold_from = 0;
  std::int64_t asked = 0;
  for (int i = 0; i < 128 && asked == 0; ++i) asked = file.ask_at({1 << 20});
  EXPECT_EQ(asked, 64 << 10);
}

TEST(ReadAhead, TakesItemsWithoutBytes) {
  const RecordingSource source;
  EXPECT_EQ(ReadAhead(source).ask(0, [](auto, auto&) {}), 0);
  EXPECT_EQ(ReadAhead(source).ask(100, [](auto, auto& ranges) { ranges.push_back({7, 0}); }), 0);
  EXPECT_TRUE(source.asked.empty());
}

bool drop_from_memory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (fd < 0) return false;
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  return true;
}

TEST(ReadAhead, BringsAFileFromDiskIntoTheMap) {
  const TempDir dir;
  const auto content = random_bytes(1 << 20, 1);
  const std::string path = dir.write("content.bin", content);
  ASSERT_TRUE(drop_from_memory(path));
  const auto source = open_local_file(path, {.access = FileAccess::kMap, .random_access = true});
  const std::vector<std::int64_t> offsets{0, 300'000, (1 << 20) - 1};
  if (source->is_cached(offsets)) GTEST_SKIP() << "this file system keeps its files in memory";
  const ReadAhead ahead(*source);
  const AppendRanges whole = [](std::int64_t item, std::vector<ByteRange>& ranges) {
    ranges.push_back({item << 16, 1 << 16});
  };
  EXPECT_EQ(ahead.ask(16, whole), 1 << 20);
  for (int i = 0; i < 6000 && !source->is_cached(offsets); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(source->is_cached(offsets));
  EXPECT_TRUE(std::ranges::equal(source->map(), content));
}

}  // namespace
}  // namespace cellfeed::io
