#include "cellfeed/cloud/http/recent_objects.h"

#include <gtest/gtest.h>

#include <string>

#include "cellfeed/testing/forked_child.h"

namespace cellfeed::cloud {
namespace {

ObjectVersion version(std::string etag, std::int64_t size = 4) {
  return {.size = size, .etag = std::move(etag), .last_modified = {}};
}
RecentObjects::Head head(std::size_t size) {
  return std::make_shared<const std::vector<std::byte>>(size);
}

TEST(RecentObjects, KnowWhatTheyWereTold) {
  RecentObjects recent;
  EXPECT_FALSE(recent.find("s3://b/a"));
  recent.keep("s3://b/a", version("1", 7));
  ASSERT_TRUE(recent.find("s3://b/a"));
  EXPECT_EQ(recent.find("s3://b/a")->size, 7);
  recent.forget("s3://b/a");
  EXPECT_FALSE(recent.find("s3://b/a"));
}

TEST(RecentObjects, AFolderIsNoObjectOfItsName) {
  RecentObjects recent;
  recent.keep_folder("s3://b/a");
  EXPECT_TRUE(recent.is_folder("s3://b/a"));
  EXPECT_FALSE(recent.find("s3://b/a"));
  recent.keep("s3://b/x", version("1"));
  EXPECT_FALSE(recent.is_folder("s3://b/x"));
}

TEST(RecentObjects, ForgetWhatIsBelow) {
  RecentObjects recent;
  for (const char* path : {"s3://b/a/1", "s3://b/a/2", "s3://b/other"})
    recent.keep(path, version("1"));
  recent.forget_below("s3://b/a/");
  EXPECT_FALSE(recent.find("s3://b/a/1"));
  EXPECT_FALSE(recent.find("s3://b/a/2"));
  EXPECT_TRUE(recent.find("s3://b/other"));
}

TEST(RecentObjects, FirstBytesAreOfOneVersion) {
  RecentObjects recent;
  recent.keep_head("s3://b/a", version("1"), head(3));
  EXPECT_FALSE(recent.find_head("s3://b/a", version("1")));
  recent.keep("s3://b/a", version("1"));
  recent.keep_head("s3://b/a", version("2"), head(3));
  EXPECT_FALSE(recent.find_head("s3://b/a", version("2")));
  recent.keep_head("s3://b/a", version("1"), head(3));
  ASSERT_TRUE(recent.find_head("s3://b/a", version("1")));
  EXPECT_EQ(recent.find_head("s3://b/a", version("1"))->size(), 3u);
  EXPECT_FALSE(recent.find_head("s3://b/a", version("2")));
  recent.keep("s3://b/a", version("1"));
  EXPECT_TRUE(recent.find_head("s3://b/a", version("1")));
  recent.keep("s3://b/a", version("2"));
  EXPECT_FALSE(recent.find_head("s3://b/a", version("2")));
}

TEST(RecentObjects, FirstBytesOfWhatHasNoTagAreNotKept) {
  RecentObjects recent;
  recent.keep("http://h/a", version(""));
  recent.keep_head("http://h/a", version(""), head(3));
  EXPECT_FALSE(recent.find_head("http://h/a", version("")));
}

TEST(RecentObjects, DoNotGrowWithoutEnd) {
  RecentObjects recent;
  for (int i = 0; i < 250'000; ++i) recent.keep(std::to_string(i), version("1"));
  EXPECT_TRUE(recent.find("249999"));
  EXPECT_FALSE(recent.find("0"));
}

TEST(RecentObjects, ServeAForkedChild) {
  RecentObjects recent;
  recent.keep("s3://b/a", version("1"));
  EXPECT_EQ(testing::run_in_child([&] {
              recent.keep("s3://b/b", version("2"));
              return recent.find("s3://b/a") && recent.find("s3://b/b");
            }),
            0);
  EXPECT_FALSE(recent.find("s3://b/b"));
}

}  // namespace
}  // namespace cellfeed::cloud
