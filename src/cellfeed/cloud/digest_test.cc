#include "cellfeed/cloud/digest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "cellfeed/cloud/part_upload.h"
#include "cellfeed/cloud/xml_elements.h"

namespace cellfeed::cloud {
namespace {

// RFC 4648, section 10; RFC 4231, case 2; FIPS 180-4.
TEST(Digest, IsThatOfTheStandards) {
  const std::pair<const char*, const char*> pairs[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Digest, WhatIsNoBase64IsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm9v!", "Zm9v\n", "====", "*Zg="})
    EXPECT_FALSE(from_base64(text).has_value()) << text;
}

TEST(XmlElements, TextsReturnAsTheyWent) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&apos;");
  for (const char* text : {"", "a&b", "<&>", "&amp;", "\"'"})
    EXPECT_EQ(unescaped(escaped(text)), text);
  EXPECT_EQ(element("<a><b>1</b><b>2</b></a>", "b"), "1");
  EXPECT_EQ(element("<a><b>1</a>", "b"), "");
}

// Amazon takes 10,000 parts of 5 MiB to 5 GiB, Azure 50,000 blocks.
TEST(PartSizes, AreWhatStoresTake) {
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{8} << 20, (std::int64_t{8} << 20) + 1, std::int64_t{1} << 40,
        std::int64_t{5} << 40}) {
    const auto [bytes, n] = part_sizes(size);
    EXPECT_LE(n, 10'000u);
    EXPECT_GE(bytes, 5 << 20);
    EXPECT_LE(bytes, std::int64_t{5} << 30);
    EXPECT_GE(bytes * static_cast<std::int64_t>(n), size);
    EXPECT_LT(bytes * static_cast<std::int64_t>(n - 1), size);
  }
}

TEST(SendParts, TheFirstFailureIsThrownAndNothingIsBegunAfterIt) {
  const StagedFile::Content content{std::int64_t{800} << 20,
                                    [](std::int64_t, std::span<std::byte>) {}};
  std::atomic<int> n_sent{0};
  std::latch is_failing{1};
  EXPECT_THROW(send_parts(content,
                          [&](std::size_t part, const std::string&) {
                            ++n_sent;
                            if (part == 2) {
                              is_failing.count_down();
                              throw std::runtime_error("as asked");
                            }
                            // However late the thread of part 2 is run again: all parts would
                            // take five seconds.
                            if (part > 2) is_failing.wait();
                            std::this_thread::sleep_for(std::chrono::milliseconds(200));
                          }),
               std::runtime_error);
  EXPECT_LT(n_sent, 100);
}

}  // namespace
}  // namespace cellfeed::cloud
