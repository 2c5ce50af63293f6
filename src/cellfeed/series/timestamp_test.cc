#include "cellfeed/series/timestamp.h"

#include <gtest/gtest.h>

#include <array>

#include "cellfeed/base/error.h"

namespace cellfeed::series {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(ParsedTimes, AreThoseOfTheCalendar) {
  EXPECT_EQ(parse_time("1970-01-01")->ns, 0);
  EXPECT_EQ(parse_time("2016-07-01 00:00:00")->ns, 1'467'331'200 * kSecond);
  EXPECT_EQ(parse_time("2000/02/29")->ns, 951'782'400 * kSecond);
  EXPECT_EQ(parse_time("1969-12-31T23:59:59.999999999")->ns, -1);
  EXPECT_FALSE(parse_time("2016-07-01 00:00:00")->has_zone);
}

TEST(ParsedTimes, OfMonthsAndQuartersAreTheirFirstDay) {
  for (const auto& [text, day] : {std::pair{"2024-03", "2024-03-01"},
                                  {"1958/12", "1958-12-01"},
                                  {"2024Q1", "2024-01-01"},
                                  {"2024-Q4", "2024-10-01"},
                                  {"1999 q2", "1999-04-01"}}) {
    ASSERT_TRUE(parse_time(text)) << text;
    EXPECT_EQ(parse_time(text)->ns, parse_time(day)->ns) << text;
    EXPECT_FALSE(parse_time(text)->has_zone);
  }
}

TEST(ParsedTimes, OfAZoneAreInUtc) {
  for (const char* text : {"2024-03-01T12:30:00Z", "2024-03-01 13:30+01:00",
                           "2024-03-01T13:30:00+01", "2024-03-01 07:00:00.000-0530"}) {
    ASSERT_TRUE(parse_time(text)) << text;
    EXPECT_EQ(parse_time(text)->ns, parse_time("2024-03-01 12:30:00")->ns) << text;
    EXPECT_TRUE(parse_time(text)->has_zone);
  }
}

TEST(ParsedTimes, ThatAreNoneAreRefused) {
  for (const char* text : {"",
                           "2024",
                           "2024-",
                           "2024-3",
                           "2024-13",
                           "2024-03-",
                           "2024Q",
                           "2024Q0",
                           "2024Q5",
                           "2024--Q1",
                           "2024Q11",
                           "2024-03T10:00",
                           "1500Q1",
                           "2024-3-1",
                           "2024-02-30",
                           "2023-02-29",
                           "2024-01-01 24:00:00",
                           "2024-01-01T",
                           "2024-01-01 10:60",
                           "2024-01/01",
                           "2024-01-01 10:00:00.",
                           "2024-01-01 10:00:00.1234567890",
                           "2024-01-01 10:00:00 UTC",
                           "2024-01-01 10:30.5",
                           "2024-01-01x",
                           "1500-01-01",
                           "2263-01-01",
                           "2024-13-01"})
    EXPECT_FALSE(parse_time(text)) << text;
}

TEST(TimeTexts, AreParsedToWhatTheyWere) {
  for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{-1}, 1'467'331'200 * kSecond,
                                kNoTime + 2 * kSecond, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(parse_time(time_text(ns, TimeKind::kNaive))->ns, ns);
    EXPECT_EQ(time_from_text(time_text(ns, TimeKind::kZoned), TimeKind::kZoned, "a"), ns);
    EXPECT_EQ(time_from_text(time_text(ns, TimeKind::kInteger), TimeKind::kInteger, "a"), ns);
  }
  EXPECT_EQ(time_text(kNoTime + 1, TimeKind::kNaive), "1677-09-21 00:12:43.145224193");
  EXPECT_THROW(time_from_text("12x", TimeKind::kInteger, "a"), Error);
}

TEST(ScaledTimes, ThatLeave64BitsAreRefused) {
  EXPECT_EQ(scaled_time(5, nanoseconds_of_unit("ms")), 5'000'000);
  EXPECT_FALSE(scaled_time(std::int64_t{1} << 60, nanoseconds_of_unit("us")));
  EXPECT_FALSE(scaled_time(kNoTime, 1));
  EXPECT_THROW(nanoseconds_of_unit("h"), Error);
}

TEST(FieldsOfTime, MustBeADate) {
  EXPECT_EQ(time_of_fields(std::array<std::int64_t, 4>{2013, 3, 1, 5}),
            parse_time("2013-03-01 05:00")->ns);
  EXPECT_FALSE(time_of_fields(std::array<std::int64_t, 3>{2013, 2, 29}));
  EXPECT_FALSE(time_of_fields(std::array<std::int64_t, 4>{2013, 2, 28, 24}));
}

}  // namespace
}  // namespace cellfeed::series
