#include "cellfeed/base/argument_text.h"

#include <gtest/gtest.h>

namespace cellfeed {
namespace {

TEST(ArgumentText, IsThatOfTheInterface) {
  EXPECT_EQ(argument("cache_dir"), "--cache-dir");
  EXPECT_EQ(argument("overwrite", "true"), "--overwrite");
  EXPECT_EQ(argument("layer", "none"), "--layer none");
  EXPECT_EQ(argument("join", "outer"), "--join outer");
  set_interface(Interface::kPython);
  EXPECT_EQ(argument("cache_dir"), "cache_dir=");
  EXPECT_EQ(argument("overwrite", "true"), "overwrite=True");
  EXPECT_EQ(argument("layer", "none"), "layer=None");
  EXPECT_EQ(argument("join", "outer"), "join=\"outer\"");
  EXPECT_EQ(argument_of_open("layer", "none"), "cellfeed.open(..., layer=None)");
  set_interface(Interface::kProgram);
  EXPECT_EQ(argument_of_open("layer", "none"), "--layer none");
}

}  // namespace
}  // namespace cellfeed
