#include "cellfeed/format/shared_axis.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace cellfeed::format {
namespace {

matrix::GeneAxis axis_of(const std::string& prefix) {
  return {{prefix + "0", prefix + "1", prefix + "2"}};
}

TEST(SharedAxis, EqualAxesInUseAreOne) {
  const auto first = share_axis(axis_of("a"));
  const auto other = share_axis(axis_of("b"));
  EXPECT_EQ(share_axis(axis_of("a")), first);
  EXPECT_EQ(share_axis(axis_of("b")), other);
  EXPECT_NE(first, other);
  EXPECT_EQ(other->names, axis_of("b").names);
}

TEST(SharedAxis, NamesThatOnlyBeginAlikeAreNot) {
  const auto first = share_axis({{"a", "b"}});
  EXPECT_NE(share_axis({{"a", "b", ""}}), first);
  EXPECT_NE(share_axis({{"ab"}}), first);
  EXPECT_NE(share_axis({{"b", "a"}}), first);
  EXPECT_NE(share_axis({}), first);
}

TEST(SharedAxis, WhatNobodyUsesIsLetGo) {
  std::weak_ptr<const matrix::GeneAxis> gone = share_axis(axis_of("gone"));
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(share_axis(axis_of("gone"))->names, axis_of("gone").names);
}

}  // namespace
}  // namespace cellfeed::format
