#include "cellfeed/cloud/http/http_object.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cellfeed::cloud {
namespace {

using Kind = RangeOutcome::Kind;

const ObjectVersion kVersion{
    .size = 1000, .etag = "\"a\"", .last_modified = "Mon", .modified_s = 1};

HttpAnswer answer_of(int status, std::string body = {}) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = std::move(body);
  return answer;
}
HttpAnswer range_of(std::string content_range, std::size_t filled, std::string etag = "\"a\"") {
  HttpAnswer answer = answer_of(206);
  answer.headers = {{"content-range", std::move(content_range)}, {"etag", std::move(etag)}};
  answer.filled = filled;
  return answer;
}
std::string refusal(std::string_view code, std::string_view message = "why") {
  return fmt::format(
      "<?xml version='1.0'?><Error><Code>{}</Code><Message>{}</Message>"
      "<AWSAccessKeyId>AKIASECRET</AWSAccessKeyId></Error>",
      code, message);
}
RangeOutcome judge(const HttpAnswer& answer) { return judge_range(answer, kVersion, 10, 90); }

TEST(JudgeRange, TakesTheRangeThatWasAskedFor) {
  EXPECT_EQ(judge(range_of("bytes 10-99/1000", 90)).kind, Kind::kDone);
  EXPECT_EQ(judge(range_of("bytes 10-99/*", 90)).kind, Kind::kDone);
  HttpAnswer of_time = range_of("bytes 10-99/1000", 90, "");
  of_time.headers["last-modified"] = "Mon";
  EXPECT_EQ(judge(of_time).kind, Kind::kDone);
}

TEST(JudgeRange, RefusesBytesOfWhichNothingTellsTheVersion) {
  const RangeOutcome outcome = judge(range_of("bytes 10-99/1000", 90, ""));
  EXPECT_EQ(outcome.kind, Kind::kFailed);
  EXPECT_EQ(outcome.error_kind, ErrorKind::kUnsupported);
  // Nothing did so when it was opened.
  EXPECT_EQ(judge_range(range_of("bytes 10-99/1000", 90, ""), {.size = 1000}, 10, 90).kind,
            Kind::kDone);
}

TEST(VersionOfFirstByte, IsThatOfTheWhole) {
  HttpAnswer answer = range_of("bytes 0-0/1000", 1);
  answer.headers["content-length"] = "1";
  const auto version = version_of_first_byte(answer);
  ASSERT_TRUE(version);
  EXPECT_EQ(version->size, 1000);
  EXPECT_EQ(version->etag, "\"a\"");
  for (const char* range : {"bytes 0-0/*", "bytes 1-1/1000", "bytes 0-1/1000", "0-0/1000", ""})
    EXPECT_FALSE(version_of_first_byte(range_of(range, 1))) << range;
}

TEST(VersionOfFirstByte, OfAnEmptyObjectIsOfNoByte) {
  HttpAnswer refused = answer_of(416);
  refused.headers = {{"content-range", "bytes */0"}};
  HttpAnswer whole = answer_of(200);
  whole.headers = {{"content-length", "0"}};
  for (const HttpAnswer& answer : {refused, whole}) {
    const auto version = version_of_first_byte(answer);
    ASSERT_TRUE(version);
    EXPECT_EQ(version->size, 0);
  }
  refused.headers["content-range"] = "bytes */9";
  whole.headers["content-length"] = "9";
  EXPECT_FALSE(version_of_first_byte(refused));
  EXPECT_FALSE(version_of_first_byte(whole));
}

TEST(JudgeRange, TakesAWeakTagForOneVersionOnlyWithItsTime) {
  const ObjectVersion weak{.size = 1000, .etag = "W/\"a\"", .last_modified = "Mon"};
  HttpAnswer answer = range_of("bytes 10-99/1000", 90, "W/\"a\"");
  answer.headers["last-modified"] = "Mon";
  EXPECT_EQ(judge_range(answer, weak, 10, 90).kind, Kind::kDone);
  answer.headers["last-modified"] = "Tue";
  EXPECT_EQ(judge_range(answer, weak, 10, 90).kind, Kind::kFailed);
}

TEST(ObjectVersion, IsMarkedByAStrongTagElseByItsTime) {
  EXPECT_EQ(kVersion.mark(), "\"a\"");
  EXPECT_EQ((ObjectVersion{.etag = "W/\"a\"", .last_modified = "Mon"}).mark(), "W/\"a\" Mon");
  EXPECT_EQ((ObjectVersion{.last_modified = "Mon"}).mark(), "Mon");
  EXPECT_EQ((ObjectVersion{.etag = "W/\"a\""}).mark(), "");
  EXPECT_EQ(ObjectVersion{}.mark(), "");
}

TEST(JudgeRange, AsksAgainWhereAnotherRangeComes) {
  for (const char* other : {"bytes 11-100/1000", "bytes 10-98/1000", "bytes 0-89/1000", "",
                            "bytes 10-99", "bytes -99/1000", "items 10-99/1000", "bytes 10/99-1000",
                            "bytes 10-99999999999999999999/1000", "bytes 10-+99/1000"}) {
    const RangeOutcome outcome = judge(range_of(other, 90));
    EXPECT_EQ(outcome.kind, Kind::kAgain) << other;
    EXPECT_EQ(outcome.error_kind, ErrorKind::kCorruptData);
    EXPECT_NE(outcome.reason.find("another range"), std::string::npos);
  }
}

TEST(JudgeRange, AsksAgainWhereTheBytesEndEarlyOrAreTooMany) {
  EXPECT_EQ(judge(range_of("bytes 10-99/1000", 89)).kind, Kind::kAgain);
  EXPECT_NE(judge(range_of("bytes 10-99/1000", 89)).reason.find("89 of 90"), std::string::npos);
  HttpAnswer overlong = range_of("bytes 10-99/1000", 90);
  overlong.failure = "the body is longer than its header says";
  EXPECT_EQ(judge(overlong).kind, Kind::kAgain);
  EXPECT_EQ(judge(overlong).reason, overlong.failure);
}

TEST(JudgeRange, FailsForGoodWhereTheObjectIsAnotherByNow) {
  HttpAnswer other_time = range_of("bytes 10-99/1000", 90, "");
  other_time.headers["last-modified"] = "Tue";
  for (const HttpAnswer& answer :
       {range_of("bytes 10-99/1001", 90), range_of("bytes 10-99/1000", 90, "\"b\""),
        range_of("bytes 10-99/1000", 90, "W/\"a\""), other_time, answer_of(412), answer_of(416)}) {
    const RangeOutcome outcome = judge(answer);
    EXPECT_EQ(outcome.kind, Kind::kFailed);
    EXPECT_EQ(outcome.error_kind, ErrorKind::kCorruptData);
    EXPECT_NE(outcome.reason.find("written again"), std::string::npos);
  }
}

TEST(JudgeRange, ComparesWeakTagsAndTimesWhereAServerHasNoOthers) {
  ObjectVersion weak = kVersion;
  weak.etag = "W/\"a\"";
  EXPECT_EQ(judge_range(range_of("bytes 10-99/1000", 90, "W/\"a\""), weak, 10, 90).kind,
            Kind::kDone);
  EXPECT_EQ(judge_range(range_of("bytes 10-99/1000", 90, "W/\"b\""), weak, 10, 90).kind,
            Kind::kFailed);
  ObjectVersion timed = kVersion;
  timed.etag.clear();
  HttpAnswer answer = range_of("bytes 10-99/1000", 90);
  answer.headers["last-modified"] = "Mon";
  EXPECT_EQ(judge_range(answer, timed, 10, 90).kind, Kind::kDone);
  answer.headers["last-modified"] = "Tue";
  EXPECT_EQ(judge_range(answer, timed, 10, 90).kind, Kind::kFailed);
}

TEST(JudgeRange, TellsWhatWasRemovedAndWhatWasRefused) {
  for (const int status : {404, 410}) {
    EXPECT_EQ(judge(answer_of(status)).kind, Kind::kFailed);
    EXPECT_EQ(judge(answer_of(status)).error_kind, ErrorKind::kNotFound);
  }
  const RangeOutcome refused = judge(answer_of(403, refusal("AccessDenied")));
  EXPECT_EQ(refused.kind, Kind::kFailed);
  EXPECT_EQ(refused.error_kind, ErrorKind::kIo);
  EXPECT_NE(refused.reason.find("HTTP 403 (AccessDenied: why)"), std::string::npos);
  EXPECT_EQ(judge(answer_of(501)).kind, Kind::kFailed);
  EXPECT_EQ(judge(answer_of(304)).kind, Kind::kFailed);
}

TEST(JudgeRange, AsksForNewCredentialsWhereTheOldOnesHaveExpired) {
  for (const auto& [status, code] : {std::pair(400, "ExpiredToken"),
                                     {403, "ExpiredToken"},
                                     {400, "TokenRefreshRequired"},
                                     {401, "InvalidToken"}})
    EXPECT_EQ(judge(answer_of(status, refusal(code))).kind, Kind::kOldCredentials) << code;
  EXPECT_EQ(judge(answer_of(400, refusal("InvalidRequest"))).kind, Kind::kFailed);
  EXPECT_EQ(judge(answer_of(500, refusal("ExpiredToken"))).kind, Kind::kAgain);
}

TEST(JudgeRange, WaitsAsLongAsTheServerAsks) {
  HttpAnswer busy = answer_of(503, refusal("SlowDown"));
  busy.headers["retry-after"] = "7";
  const RangeOutcome outcome = judge(busy);
  EXPECT_EQ(outcome.kind, Kind::kAgain);
  EXPECT_TRUE(outcome.is_throttled);
  EXPECT_EQ(outcome.wait, std::chrono::seconds(7));
  busy.headers["retry-after"] = "999999999999";
  EXPECT_EQ(judge(busy).wait, std::chrono::seconds(60));
  for (const char* other : {"Fri, 31 Dec 1999 23:59:59 GMT", "-5", "", "1.5"}) {
    busy.headers["retry-after"] = other;
    EXPECT_EQ(judge(busy).wait, std::chrono::seconds(0)) << other;
  }
  EXPECT_TRUE(judge(answer_of(429)).is_throttled);
  for (const int status : {408, 500, 502, 504}) {
    EXPECT_EQ(judge(answer_of(status)).kind, Kind::kAgain) << status;
    EXPECT_FALSE(judge(answer_of(status)).is_throttled) << status;
  }
}

TEST(JudgeRange, NoAnswerIsAskedForAgain) {
  HttpAnswer none;
  none.failure = "connection reset";
  EXPECT_EQ(judge(none).kind, Kind::kAgain);
  EXPECT_EQ(judge(none).reason, "connection reset");
}

TEST(JudgeRange, WholeFilesAndPagesAreNoRanges) {
  EXPECT_EQ(judge(answer_of(200)).kind, Kind::kFailed);
  EXPECT_EQ(judge(answer_of(200)).error_kind, ErrorKind::kUnsupported);
  HttpAnswer page = answer_of(200, "<html>log in</html>");
  page.headers["content-type"] = "text/html; charset=utf-8";
  EXPECT_EQ(judge(page).error_kind, ErrorKind::kCorruptData);
  EXPECT_NE(judge(page).reason.find("HTML page"), std::string::npos);
  page.status = 404;
  EXPECT_FALSE(is_page(page));
}

TEST(DescribeRefusal, ShowsCodeAndMessageAndNothingElse) {
  const std::string said = describe_refusal(answer_of(403, refusal("SignatureDoesNotMatch")));
  EXPECT_EQ(said, "HTTP 403 (SignatureDoesNotMatch: why)");
  EXPECT_EQ(describe_refusal(answer_of(500, "key=AKIASECRET")), "HTTP 500");
  EXPECT_EQ(describe_refusal(answer_of(400, "<Code>never ends AKIASECRET")).find("AKIA"),
            std::string::npos);
  const std::string much = describe_refusal(answer_of(400, refusal("X", std::string(5000, 'm'))));
  EXPECT_LT(much.size(), 300u);
}

TEST(VersionOf, NeedsASize) {
  HttpAnswer answer = answer_of(200);
  EXPECT_FALSE(version_of(answer));
  for (const char* wrong : {"-1", "12a", "", "99999999999999999999"}) {
    answer.headers["content-length"] = wrong;
    EXPECT_FALSE(version_of(answer)) << wrong;
  }
  answer.headers = {{"content-length", "12"},
                    {"etag", "\"x\""},
                    {"last-modified", "Thu, 01 Jan 1970 00:01:00 GMT"}};
  const auto version = version_of(answer);
  ASSERT_TRUE(version);
  EXPECT_EQ(version->size, 12);
  EXPECT_EQ(version->etag, "\"x\"");
  EXPECT_EQ(version->modified_s, 60);
}

}  // namespace
}  // namespace cellfeed::cloud
