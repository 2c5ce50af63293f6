// Row copies against memcpy, on every instruction set of this machine.
#include "cellfeed/format/row_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/testing/each_target.h"

namespace cellfeed::format {
namespace {

constexpr std::int32_t kUntouched = -77;

// Words at any byte, copied to any word; what lies around the target must stay.
struct Copy {
  std::vector<std::byte> from;
  std::vector<std::int32_t> to;
  std::int64_t n;
  std::size_t skipped_bytes;
  std::size_t skipped_words;

  Copy(const std::vector<std::int32_t>& words, std::size_t byte, std::size_t word)
      : from(words.size() * 4 + byte),
        to(words.size() + word + 40, kUntouched),
        n(std::ssize(words)),
        skipped_bytes(byte),
        skipped_words(word) {
    if (n > 0) std::memcpy(source(), words.data(), words.size() * 4);
  }
  std::byte* source() { return from.data() + skipped_bytes; }
  std::int32_t* target() { return to.data() + skipped_words; }
  void expect_copied(const std::vector<std::int32_t>& words) const {
    std::vector<std::int32_t> expected(to.size(), kUntouched);
    std::copy(words.begin(), words.end(), expected.begin() + std::ptrdiff_t(skipped_words));
    ASSERT_EQ(to, expected) << words.size() << " words from byte " << skipped_bytes << " to word "
                            << skipped_words;
  }
};

std::vector<std::int32_t> rising_words(std::int64_t n) {
  std::vector<std::int32_t> words(static_cast<std::size_t>(n));
  std::iota(words.begin(), words.end(), -5);
  return words;
}

TEST(RowCopyTest, CopiesWordsFromAnywhereToAnywhere) {
  const std::vector<std::byte> next(1000);
  const UpcomingBytes upcoming[] = {{}, {next.data(), 7}, {next.data(), std::ssize(next)}};
  testing::for_each_target([&] {
    for (const std::int64_t n : {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1000})
      for (const std::size_t byte : {0, 1, 4, 61})
        for (const std::size_t word : {0, 1, 7, 15})
          for (const bool past_caches : {false, true}) {
            const auto words = rising_words(n);
            Copy copy(words, byte, word);
            const UpcomingBytes& ahead = upcoming[(byte + word) % 3];
            ASSERT_TRUE(copy_ascending(copy.source(), n, copy.target(), ahead, past_caches));
            publish_row_copies(past_caches);
            copy.expect_copied(words);
          }
  });
}

TEST(RowCopyTest, SeesEveryDescent) {
  testing::for_each_target([] {
    for (const std::int64_t n : {2, 16, 17, 40, 130})
      for (std::int64_t at = 1; at < n; ++at)
        for (const std::int32_t fall : {0, 1, 1000})
          for (const bool past_caches : {false, true}) {
            auto words = rising_words(n);
            words[at] = words[at - 1] - fall;
            Copy copy(words, 0, 3);
            ASSERT_FALSE(copy_ascending(copy.source(), n, copy.target(), {}, past_caches))
                << "word " << at << " of " << n << " falls by " << fall;
            publish_row_copies(past_caches);
            copy.expect_copied(words);
          }
  });
}

// Rising, and with gaps.
std::vector<std::int32_t> rising_columns(std::int64_t n) {
  std::vector<std::int32_t> columns(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < columns.size(); ++i)
    columns[i] = static_cast<std::int32_t>(3 * i + i * i % 3);
  return columns;
}

struct Way {
  bool is_narrow;
  bool past_caches;
  bool gathers;
};
constexpr Way kWays[] = {{false, false, false}, {false, true, false}, {true, false, false},
                         {true, true, false},   {true, false, true},  {true, true, true}};

struct Places {
  std::vector<std::int32_t> wide;
  std::vector<std::uint16_t> narrow;

  explicit Places(std::int64_t n) : wide(static_cast<std::size_t>(n)) {
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<std::int32_t>(5 * i + 11);
    narrow.assign(wide.begin(), wide.end());
  }
  bool copy(Copy& copy, UpcomingBytes upcoming, const Way& way) const {
    const bool ascends = copy_places(copy.source(), copy.n, wide, narrow_for(way), copy.target(),
                                     upcoming, way.past_caches, way.gathers);
    publish_row_copies(way.past_caches);
    return ascends;
  }
  std::span<const std::uint16_t> narrow_for(const Way& way) const {
    return way.is_narrow ? std::span(narrow) : std::span<const std::uint16_t>();
  }
};

TEST(RowCopyTest, CopiesPlacesOfColumns) {
  const Places places(4000);
  const std::vector<std::byte> next(1000);
  testing::for_each_target([&] {
    for (const std::int64_t n : {0, 1, 2, 15, 16, 17, 33, 64, 65, 66, 129, 1000})
      for (const std::size_t byte : {0, 1, 4, 61})
        for (const std::size_t word : {0, 1, 7, 15})
          for (const Way& way : kWays) {
            auto columns = rising_columns(n);
            Copy copy(columns, byte, word);
            ASSERT_TRUE(places.copy(copy, {next.data(), 990}, way));
            for (std::int32_t& column : columns) column = places.wide[column];
            copy.expect_copied(columns);
          }
  });
}

// Of the last column, too, the table holds its place and nothing behind.
TEST(RowCopyTest, CopiesPlacesOfAllColumnsThereAre) {
  testing::for_each_target([] {
    for (const std::int64_t n : {1, 2, 15, 16, 17, 18, 33, 64, 65, 66, 1000, 1001})
      for (const Way& way : kWays) {
        const Places places(n);
        std::vector<std::int32_t> columns(static_cast<std::size_t>(n));
        std::iota(columns.begin(), columns.end(), 0);
        Copy copy(columns, 0, 1);
        ASSERT_TRUE(places.copy(copy, {}, way));
        copy.expect_copied(places.wide);
      }
  });
}

TEST(RowCopyTest, PutsPlacesWhereTheirColumnsWere) {
  const Places places(4000);
  testing::for_each_target([&] {
    for (const std::int64_t n : {0, 1, 2, 15, 16, 17, 33, 64, 65, 66, 129, 1000})
      for (const Way& way : kWays) {
        if (way.past_caches) continue;
        auto columns = rising_columns(n), expected = columns;
        for (std::int32_t& column : expected) column = places.wide[column];
        ASSERT_TRUE(copy_places(reinterpret_cast<const std::byte*>(columns.data()), n, places.wide,
                                places.narrow_for(way), columns.data(), {}, false, way.gathers));
        ASSERT_EQ(columns, expected);
      }
  });
}

TEST(RowCopyTest, CopiesNoPlacesOfColumnsOutOfOrderOrRange) {
  testing::for_each_target([] {
    for (const std::int64_t n : {1, 2, 16, 17, 40, 130})
      for (std::int64_t at = 0; at < n; ++at)
        for (const Way& way : kWays) {
          const auto columns = rising_columns(n);
          const Places places(columns.back() + 1);
          const auto expect_refused = [&](std::int32_t column) {
            auto wrong = columns;
            wrong[at] = column;
            Copy copy(wrong, 1, 3);
            ASSERT_FALSE(places.copy(copy, {}, way)) << column << " at " << at << " of " << n;
            ASSERT_EQ(copy.to[2], kUntouched);
            ASSERT_EQ(copy.target()[n], kUntouched);
          };
          expect_refused(-1);
          expect_refused(std::numeric_limits<std::int32_t>::min());
          expect_refused(columns.back() + 1);
          expect_refused(std::numeric_limits<std::int32_t>::max());
          if (at > 0) expect_refused(columns[at - 1]);
        }
  });
}

TEST(RowCopyTest, CopiesBytesThatAreNoWholeWords) {
  testing::for_each_target([] {
    for (const std::int64_t size : {0, 1, 3, 4, 63, 66, 257, 4099})
      for (const bool past_caches : {false, true}) {
        std::vector<std::byte> from(static_cast<std::size_t>(size) + 1);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7 + 1);
        std::vector<std::byte> to(from.size() + 16, std::byte{0xee}), expected = to;
        copy_bytes(from.data() + 1, size, to.data() + 4, {}, past_caches);
        publish_row_copies(past_caches);
        std::copy(from.begin() + 1, from.end(), expected.begin() + 4);
        ASSERT_EQ(to, expected) << size;
      }
  });
}

}  // namespace
}  // namespace cellfeed::format
