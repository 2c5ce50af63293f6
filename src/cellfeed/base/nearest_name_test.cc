#include "cellfeed/base/nearest_name.h"

#include <gtest/gtest.h>

namespace cellfeed {
namespace {

const std::vector<std::string> kColumns = {"cell_type", "donor", "depth", "tissue"};

TEST(NearestName, EditsAreCountedWithSwapsAsOne) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("shrad", "shard"), 1u);
  EXPECT_EQ(edit_distance("Shard", "shard"), 0u);
}

TEST(NearestName, AMistypedNameFindsTheOneMeant) {
  EXPECT_EQ(nearest_name("cel_type", kColumns), "cell_type");
  EXPECT_EQ(nearest_name("Cell_Type", kColumns), "cell_type");
  EXPECT_EQ(nearest_name("celltype", kColumns), "cell_type");
  EXPECT_EQ(nearest_name("dnoor", kColumns), "donor");
  EXPECT_EQ(nearest_name("cell", kColumns), "cell_type");
  const std::vector<std::string> dtypes = {"float32", "float64", "int32"};
  EXPECT_EQ(nearest_name("floot", dtypes), "float32");
}

TEST(NearestName, NothingNearGivesNothing) {
  EXPECT_EQ(nearest_name("batch", kColumns), "");
  EXPECT_EQ(nearest_name("", kColumns), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'a'), kColumns), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(NearestName, ASuggestionNamesTheNearestFirstAndTheListAfter) {
  EXPECT_EQ(suggestion("dono", kColumns),
            "; did you mean 'donor'? there are: cell_type, donor, depth, tissue");
  EXPECT_EQ(suggestion("batch", kColumns), "; there are: cell_type, donor, depth, tissue");
  EXPECT_EQ(suggestion("batch", {}), "; there are none");
  const std::vector<std::string> many(25, "aaaa");
  EXPECT_TRUE(suggestion("b", many).ends_with(", aaaa and 5 more"));
}

}  // namespace
}  // namespace cellfeed
