#include "cellfeed/base/json_depth.h"

#include <gtest/gtest.h>

#include <string>

#include "cellfeed/base/error.h"

namespace cellfeed {
namespace {

bool is_shallow(const std::string& text, int max_depth) {
  try {
    require_shallow_json(text, "some.json", max_depth);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
    EXPECT_EQ(error.path(), "some.json");
    return false;
  }
}

TEST(JsonDepth, BracketsCountWhereTheyAreNoText) {
  EXPECT_TRUE(is_shallow(R"({"a": [1, {"b": 2}], "c": [[]]})", 3));
  EXPECT_FALSE(is_shallow(R"({"a": [1, {"b": 2}], "c": [[]]})", 2));
  EXPECT_TRUE(is_shallow(R"({"[[[": "]{\"[[[", "x": []})", 2));
  EXPECT_TRUE(is_shallow("[][][][]", 1));
}

TEST(JsonDepth, DepthThatWouldOverflowTheStackIsRefused) {
  EXPECT_TRUE(is_shallow(std::string(kMaxJsonDepth, '['), kMaxJsonDepth));
  EXPECT_FALSE(is_shallow(std::string(10'000'000, '['), kMaxJsonDepth));
}

}  // namespace
}  // namespace cellfeed
