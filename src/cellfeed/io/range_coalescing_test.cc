#include "cellfeed/io/range_coalescing.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

TEST(Coalesce, JoinsNeighboursWithinTheGap) {
  const ByteRange ranges[] = {{0, 10}, {15, 5}, {100, 1}};
  const auto result = coalesce(ranges, 5, 1000);
  ASSERT_EQ(result.reads.size(), 2u);
  EXPECT_EQ(result.reads[0].offset, 0);
  EXPECT_EQ(result.reads[0].length, 20);
  EXPECT_EQ(result.places[1].read, 0);
  EXPECT_EQ(result.places[1].offset, 15);
  EXPECT_EQ(result.places[2].read, 1);
  EXPECT_EQ(coalesce(ranges, 4, 1000).reads.size(), 3u);
}

TEST(Coalesce, SplitsAtTheMaximumLength) {
  const ByteRange ranges[] = {{0, 10}, {10, 10}, {20, 10}};
  EXPECT_EQ(coalesce(ranges, 0, 20).reads.size(), 2u);
  EXPECT_EQ(coalesce(ranges, 0, 30).reads.size(), 1u);
  EXPECT_EQ(coalesce(ranges, 0, 1).reads.size(), 3u);
}

TEST(Coalesce, EmptyInputsAndRangesNeedNoRead) {
  EXPECT_TRUE(coalesce({}, 10, 10).reads.empty());
  const ByteRange ranges[] = {{5, 0}, {7, 2}, {5, 0}};
  const auto result = coalesce(ranges, 10, 10);
  ASSERT_EQ(result.reads.size(), 1u);
  EXPECT_EQ(result.reads[0].offset, 7);
  EXPECT_EQ(result.places.size(), 3u);
}

TEST(Coalesce, RefusesWhatCannotBe) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  for (const ByteRange range : {ByteRange{-1, 1}, ByteRange{1, -1}, ByteRange{kMax, 2}}) {
    EXPECT_THROW(coalesce({&range, 1}, 0, 1), Error);
  }
  EXPECT_THROW(coalesce({}, -1, 1), Error);
  EXPECT_THROW(coalesce({}, 0, 0), Error);
}

// What must hold whatever the input, checked one range at a time.
TEST(Coalesce, OrdersOffsetsOfAnySize) {
  std::vector<ByteRange> ranges;
  for (int bit = 0; bit < 62; ++bit)
    for (const std::int64_t more : {0, 1, 3})
      ranges.insert(bit % 2 ? ranges.begin() : ranges.end(), {(std::int64_t{1} << bit) + more, 1});
  const CoalescedReads plan = coalesce(ranges, 0, 1);
  for (std::size_t i = 1; i < plan.reads.size(); ++i)
    EXPECT_LT(plan.reads[i - 1].offset, plan.reads[i].offset);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    EXPECT_EQ(plan.reads[static_cast<std::size_t>(plan.places[i].read)].offset, ranges[i].offset);
}

TEST(Coalesce, PropertiesHoldForRandomInputs) {
  std::mt19937 engine(7);
  const auto random = [&engine] { return static_cast<std::int64_t>(engine()); };
  for (int round = 0; round < 300; ++round) {
    std::vector<ByteRange> ranges(engine() % 40);
    for (auto& range : ranges) range = {random() % 500, random() % 20};
    const std::int64_t max_gap = random() % 30;
    const std::int64_t max_length = 1 + random() % 100;
    const auto result = coalesce(ranges, max_gap, max_length);
    std::vector<bool> is_wanted(600, false);
    ASSERT_EQ(result.places.size(), ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].length == 0) continue;
      const auto& read = result.reads.at(static_cast<std::size_t>(result.places[i].read));
      EXPECT_EQ(read.offset + result.places[i].offset, ranges[i].offset);
      EXPECT_LE(result.places[i].offset + ranges[i].length, read.length);
      for (std::int64_t at = 0; at < ranges[i].length; ++at) {
        is_wanted[static_cast<std::size_t>(ranges[i].offset + at)] = true;
      }
    }
    std::int64_t last_end = -1;
    for (const auto& read : result.reads) {
      EXPECT_GE(read.offset, last_end);
      last_end = read.offset + read.length;
      EXPECT_TRUE(is_wanted[static_cast<std::size_t>(read.offset)]);
      EXPECT_TRUE(is_wanted[static_cast<std::size_t>(last_end - 1)]);
      std::int64_t gap = 0;
      for (std::int64_t at = read.offset; at < last_end; ++at) {
        // What follows a gap was joined by choice, so it begins within the length.
        const bool is_joined = gap > 0 && is_wanted[static_cast<std::size_t>(at)];
        EXPECT_TRUE(!is_joined || at - read.offset < max_length);
        gap = is_wanted[static_cast<std::size_t>(at)] ? 0 : gap + 1;
        EXPECT_LE(gap, max_gap);
      }
    }
  }
}

}  // namespace
}  // namespace cellfeed::io
