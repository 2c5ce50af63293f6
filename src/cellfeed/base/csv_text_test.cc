#include "cellfeed/base/csv_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace cellfeed {
namespace {

using ::testing::ElementsAre;

TEST(CsvLines, AreCutAtDelimitersOutsideOfQuotes) {
  CsvFields fields;
  EXPECT_EQ(fields.split("a,\"b,c\",,\"d\"\"e\"", ','), "");
  EXPECT_THAT(fields.fields(), ElementsAre("a", "b,c", "", "d\"e"));
  EXPECT_EQ(fields.split("", ','), "");
  EXPECT_THAT(fields.fields(), ElementsAre(""));
  EXPECT_EQ(fields.split("\"\",", ','), "");
  EXPECT_THAT(fields.fields(), ElementsAre("", ""));
}

TEST(CsvLines, WithQuotesThatDoNotMatchAreRefused) {
  CsvFields fields;
  for (const char* line : {"\"a", "\"a\"b", "x,\"a\"\"", "\""})
    EXPECT_NE(fields.split(line, ','), "");
}

TEST(Numbers, AreTheNearestDoubles) {
  EXPECT_EQ(parse_number("0.1"), 0.1);
  EXPECT_EQ(parse_number(" +1e3 "), 1000);
  EXPECT_EQ(parse_number("1e999"), HUGE_VAL);
  EXPECT_EQ(parse_number("1e-999"), 0);
  EXPECT_TRUE(std::isinf(*parse_number("-inf")));
  const std::string zeros(400, '0');
  for (const std::string& text :
       {"1" + zeros + "e-50", std::string("1e99999999999999999999"),
        std::string("10e9223372036854775807"), "0." + zeros + "1e+800", "0001" + zeros + ".5"})
    EXPECT_EQ(parse_number(text), HUGE_VAL) << text;
  for (const std::string& text :
       {"0." + zeros + "1", "0." + zeros + "1e20", std::string("1e-99999999999999999999"),
        std::string("0.01e-9223372036854775808"), std::string("-1e-999")})
    EXPECT_EQ(parse_number(text), 0) << text;
  EXPECT_EQ(parse_number("-1e999"), -HUGE_VAL);
  for (const char* text : {"", "+", "+-1", "1,5", "1 2", "0x10", "one", "1e"})
    EXPECT_FALSE(parse_number(text)) << text;
  EXPECT_EQ(parse_integer("-12"), -12);
  for (const char* text : {"", "1.0", "99999999999999999999"}) EXPECT_FALSE(parse_integer(text));
}

TEST(MissingTexts, AreThoseOfPandas) {
  for (const char* text : {"",     " ",    "#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN",
                           "-NaN", "-nan", "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",
                           "NULL", "NaN",  "None",   "n/a",      "nan",  "null"})
    EXPECT_TRUE(is_missing_text(text)) << text;
  for (const char* text : {"0", "-", "n", "none", "NAN0", "a", "1.", "1.#INF", "1.#"})
    EXPECT_FALSE(is_missing_text(text)) << text;
}

TEST(RoundedNumbers, AreWholeOnesOfOtherDigits) {
  for (const char* text : {"9007199254740993", "+9007199254740993", "-0009007199254740993",
                           "18446744073709551615", "99999999999999999999"})
    EXPECT_TRUE(is_rounded(*parse_number(text), text)) << text;
  for (const char* text : {"9007199254740992", " 0009007199254740994", "-9223372036854775808",
                           "18446744073709551616", "1e300", "9007199254740993.5", "0", "-0"})
    EXPECT_FALSE(is_rounded(*parse_number(text), text)) << text;
}

}  // namespace
}  // namespace cellfeed
