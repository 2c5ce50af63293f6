#include "cellfeed/collection/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {
namespace {

using Kind = FilterNode::Kind;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_filter(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(FilterSyntax, BindsAsPythonDoes) {
  const FilterNode tree = parse_filter("a == 1 or b < 2 and not c in [3]");
  ASSERT_EQ(tree.kind, Kind::kOr);
  ASSERT_EQ(tree.children.size(), 2u);
  EXPECT_EQ(tree.children[0].kind, Kind::kComparison);
  ASSERT_EQ(tree.children[1].kind, Kind::kAnd);
  EXPECT_EQ(tree.children[1].children[1].kind, Kind::kNot);
  EXPECT_EQ(parse_filter("(a == 1) & (b == 2) | (c == 3)").kind, Kind::kOr);
}

TEST(FilterSyntax, KnowsValues) {
  const auto value = [](const std::string& text) {
    return parse_filter("a == " + text).children[1].value;
  };
  EXPECT_EQ(*value("-3"), matrix::Category(std::int64_t{-3}));
  EXPECT_EQ(*value("2.5e3"), matrix::Category(2500.0));
  EXPECT_EQ(*value("99999999999999999999"), matrix::Category(1e20));
  EXPECT_EQ(*value("'it\\'s'"), matrix::Category(std::string("it's")));
  EXPECT_EQ(*value("True"), matrix::Category(true));
  EXPECT_FALSE(value("None"));
}

TEST(FilterSyntax, KnowsNamesOfEveryKind) {
  EXPECT_EQ(parse_filter("`is doublet`").name, "is doublet");
  EXPECT_EQ(parse_filter("attr('is doublet')").name, "is doublet");
  EXPECT_EQ(parse_filter("größe").name, "größe");
}

TEST(FilterSyntax, RefusesWhatIsNone) {
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal("größe = 1"), HasSubstr("at character 7 "));
  for (const char* text :
       {"a ==", "== a", "a b", "a == 'x", "a == 1x", "(a == 1", "a == 1)", "a in [1, 2",
        "a == 1 and", "a ! b", "`a", "a == $", "a not 3", "a == 1 if b else c", "a + 1 == 2",
        "- 'x' == a", "1e999 < a", "a == '\\q'"})
    EXPECT_THAT(refusal(text), HasSubstr("at character ")) << text;
  EXPECT_THAT(refusal(std::string(5000, '(') + "a" + std::string(5000, ')')),
              HasSubstr("too deeply"));
  EXPECT_LT(refusal("a == " + std::string(100000, '$')).size(), 2000u);
}

}  // namespace
}  // namespace cellfeed::collection
