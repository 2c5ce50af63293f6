#include "cellfeed/cloud/content_checksum.h"

#include <gtest/gtest.h>

namespace cellfeed::cloud {
namespace {

struct Case {
  ChecksumKind kind;
  const char* text;  // of "123456789"
};

class ContentChecksums : public ::testing::TestWithParam<Case> {};
// As Google's, Amazon's and Microsoft's tools print them.
INSTANTIATE_TEST_SUITE_P(All, ContentChecksums,
                         ::testing::Values(Case{ChecksumKind::kCrc32, "y/Q5Jg=="},
                                           Case{ChecksumKind::kCrc32c, "4waSgw=="},
                                           Case{ChecksumKind::kCrc64Nvme, "rosUhgp5mIg="},
                                           Case{ChecksumKind::kMd5, "JfnnlDI7RTiF9RgfG2JNCw=="}));

bool is_right(const Case& of, std::string_view came) {
  ContentCheck check(parse_checksum(of.kind, of.text).value());
  check.add(std::as_bytes(std::span(came.substr(0, 4))));
  check.add(std::as_bytes(std::span(came.substr(4))));
  return check.is_right();
}

TEST_P(ContentChecksums, TellDamagedBytes) {
  EXPECT_TRUE(is_right(GetParam(), "123456789"));
  EXPECT_FALSE(is_right(GetParam(), "123456788"));
  EXPECT_FALSE(is_right(GetParam(), "12345678"));
}

TEST_P(ContentChecksums, OfAnotherFormAreNone) {
  const std::string text = GetParam().text;
  // Amazon's of parts, each summed up for itself, ends with their number.
  for (const std::string& wrong :
       {std::string(), text + "-2", "AAAA" + text, text.substr(4), std::string("****")})
    EXPECT_FALSE(parse_checksum(GetParam().kind, wrong)) << wrong;
}

}  // namespace
}  // namespace cellfeed::cloud
