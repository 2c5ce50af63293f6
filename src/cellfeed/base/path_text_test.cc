#include "cellfeed/base/path_text.h"

#include <gtest/gtest.h>

#include <string>

#include "cellfeed/base/error.h"

namespace cellfeed {
namespace {

TEST(MaskCredentials, HidesUserAndPassword) {
  EXPECT_EQ(mask_credentials("s3://KEY:SECRET@bucket/a.h5ad"), "s3://***@bucket/a.h5ad");
  EXPECT_EQ(mask_credentials("cannot open 'https://me:p@ss/word@host/x' now"),
            "cannot open 'https://***@host/x' now");
}

TEST(MaskCredentials, HidesSignaturesOfQueries) {
  EXPECT_EQ(mask_credentials("https://h/x?sv=1&sig=abc%2F=&se=2"), "https://h/x?sv=1&sig=***&se=2");
  EXPECT_EQ(mask_credentials("https://h/x?X-Amz-Signature=abc"), "https://h/x?X-Amz-Signature=***");
}

TEST(MaskCredentials, KnowsWhatSecretsOfAddressesAreCalled) {
  for (const char* name : {"code", "sas", "hdnea", "Key-Pair-Key", "X-Goog-Signature", "jwt", "PWD",
                           "access_token", "apikey", "Signature"})
    EXPECT_TRUE(is_secret_parameter(name)) << name;
  for (const char* name : {"dl", "page", "version", "codes", "keys", "format", ""})
    EXPECT_FALSE(is_secret_parameter(name)) << name;
  EXPECT_EQ(mask_credentials("https://h/x?code=abc&dl=1"), "https://h/x?code=***&dl=1");
}

TEST(MaskCredentials, HidesThoseOfEveryUrl) {
  EXPECT_EQ(mask_credentials("s3://a:b@c and gs://d:e@f"), "s3://***@c and gs://***@f");
  EXPECT_EQ(mask_credentials("at abfs://c@a.dfs.core.windows.net/x"),
            "at abfs://c@a.dfs.core.windows.net/x");
  EXPECT_EQ(mask_credentials("abfs://c:secret@a/x"), "abfs://***@a/x");
}

TEST(MaskCredentials, LeavesOtherTextAlone) {
  for (const char* text : {"", "a@b", "/data/a:b@c.h5ad: damaged", "s3://bucket/a.h5ad", "://",
                           "https://h/x?page=2&significant=1"})
    EXPECT_EQ(mask_credentials(text), text);
}

TEST(RequirePath, RefusesWhatTheSystemWouldCutShort) {
  EXPECT_NO_THROW(require_path("a b/ä.h5ad"));
  EXPECT_THROW(require_path(""), Error);
  try {
    require_path(std::string_view("a.h5ad\0.txt", 11));
    FAIL() << "a NUL byte was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("position 6"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cellfeed
