#include "cellfeed/cloud/storage_options.h"

#include <gtest/gtest.h>

#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/forked_child.h"

namespace cellfeed::cloud {
namespace {

template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(StorageOptions, AreOfOneBucket) {
  set_storage_options("s3://options/any/file", {{"key", "k"}, {"secret", "hidden"}});
  EXPECT_EQ(storage_options_of("s3", "options").at("key"), "k");
  EXPECT_TRUE(storage_options_of("s3", "other").empty());
  EXPECT_TRUE(storage_options_of("gs", "options").empty());
  const auto before = storage_options_version();
  set_storage_options("s3://options", {{"key", "k"}, {"secret", "hidden"}});
  EXPECT_EQ(storage_options_version(), before);
  set_storage_options("s3://options", {{"anon", "true"}});
  EXPECT_GT(storage_options_version(), before);
  EXPECT_FALSE(storage_options_of("s3", "options").contains("key"));
  EXPECT_EQ(testing::run_in_child(
                [] { return storage_options_of("s3", "options").at("anon") == "true"; }),
            0);
  set_storage_options("s3://options", {});
}

TEST(StorageOptions, UnknownNamesAreRefusedWithoutTheirValues) {
  const std::string said = refusal_of(
      [] { set_storage_options("s3://b/a", {{"access_key", "hidden"}, {"secret", "hidden"}}); });
  EXPECT_NE(said.find("'access_key' (those of s3:// are anon, endpoint_url, key"),
            std::string::npos);
  EXPECT_EQ(said.find("hidden"), std::string::npos);
  EXPECT_TRUE(storage_options_of("s3", "b").empty());
  refusal_of([] { set_storage_options("http://h/a", {{"key", "hidden"}}); });
  refusal_of([] { set_storage_options("memory://h/a", {{"key", "hidden"}}); });
}

TEST(StorageOptions, OneMoreIsAddedBesideTheOthers) {
  set_storage_options("s3://added/a", {{"anon", "true"}});
  add_storage_option("s3://added/b", kCacheDirOption, "/copies");
  EXPECT_EQ(storage_options_of("s3", "added"),
            (StorageOptions{{"anon", "true"}, {"cache_dir", "/copies"}}));
}

TEST(StorageOptions, ACacheNeedsAFolder) {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  for (const char* name : {"CELLFEED_CACHE", "XDG_CACHE_HOME", "HOME"}) ::unsetenv(name);
  for (const char* mode : {"files", "blocks"}) {
    set_storage_options("s3://kept/a", {{"cache_dir", "/copies"}, {"cache", mode}});
    EXPECT_NE(refusal_of([&] {
                set_storage_options("s3://kept/a", {{"cache", mode}});
              }).find("CELLFEED_CACHE"),
              std::string::npos);
  }
  for (const char* mode : {"", "Blocks", "rows"})
    EXPECT_NE(refusal_of([&] {
                set_storage_options("s3://kept/a", {{"cache_dir", "/c"}, {"cache", mode}});
              }).find("files (whole copies) or blocks"),
              std::string::npos);
  ::setenv("CELLFEED_CACHE", "/named", 1);
  set_storage_options("s3://kept/a", {{"cache", "blocks"}});
  EXPECT_EQ(storage_options_of("s3", "kept"),
            (StorageOptions{{"cache_dir", "/named"}, {"cache", "blocks"}}));
  ::unsetenv("CELLFEED_CACHE");
  ::setenv("HOME", "/home/me", 1);
  set_storage_options("s3://kept/a", {{"cache", "files"}});
  EXPECT_EQ(storage_options_of("s3", "kept").at("cache_dir"), "/home/me/.cache/cellfeed");
  ::setenv("HOME", home.c_str(), 1);
}

TEST(StorageOptions, ALocalPathHasNone) {
  for (const char* path : {"a", "", "/data/a.h5ad", "s3:/b"})
    EXPECT_NE(refusal_of([&] { set_storage_options(path, {{"anon", "1"}}); }).find("bucket"),
              std::string::npos)
        << path;
}

TEST(StorageOptions, FlagsAreTrueOrFalse) {
  EXPECT_TRUE(parse_flag("anon", "True") && parse_flag("anon", "1"));
  EXPECT_FALSE(parse_flag("anon", "false") || parse_flag("anon", "no"));
  EXPECT_NE(refusal_of([] { parse_flag("anon", "hidden"); }).find("anon"), std::string::npos);
}

TEST(BucketPath, HasABucketAndAKey) {
  const BucketPath path = parse_bucket_path("s3://bucket/a b/c+%20.h5ad");
  EXPECT_EQ(path.scheme, "s3");
  EXPECT_EQ(path.bucket, "bucket");
  EXPECT_EQ(path.key, "a b/c+%20.h5ad");
  EXPECT_EQ(path.text(), "s3://bucket/a b/c+%20.h5ad");
  EXPECT_EQ(parse_bucket_path("s3://bucket").key, "");
  EXPECT_EQ(parse_bucket_path("s3://bucket///").key, "");
  EXPECT_EQ(parse_bucket_path("s3://bucket/a//").key, "a");
  EXPECT_EQ(parse_bucket_path("s3://bucket/a//b/../c").key, "a//b/../c");
  EXPECT_EQ(parse_bucket_path("s3://bucket").child("a").text(), "s3://bucket/a");
  EXPECT_EQ(path.child("d").text(), "s3://bucket/a b/c+%20.h5ad/d");
}

TEST(BucketPath, NamesABucketAndNoUser) {
  EXPECT_NE(refusal_of([] { parse_bucket_path("s3:///a"); }).find("names no bucket"),
            std::string::npos);
  refusal_of([] { parse_bucket_path("s3://"); });
  const std::string said = refusal_of([] { parse_bucket_path("https://user:hidden@host/a"); });
  EXPECT_EQ(said.find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace cellfeed::cloud
