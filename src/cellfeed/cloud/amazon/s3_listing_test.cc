#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/object_listing.h"
#include "cellfeed/cloud/percent.h"

namespace cellfeed::cloud {
namespace {

std::string object_xml(std::string_view key, std::string_view size = "5",
                       std::string_view etag = "&quot;e&quot;") {
  return fmt::format(
      "<Contents><Key>{}</Key><LastModified>1970-01-01T00:01:00.000Z</LastModified>"
      "<ETag>{}</ETag><Size>{}</Size><Owner><ID>x</ID></Owner></Contents>",
      key, etag, size);
}
std::string list_xml(std::string_view inside,
                     std::string_view encoding = "<EncodingType>url</EncodingType>") {
  return fmt::format(
      "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">"
      "<Name>b</Name><Prefix>p%2F</Prefix>{}{}</ListBucketResult>",
      encoding, inside);
}
std::string refused_s3(const std::string& xml) {
  try {
    parse_s3_listing(xml, "s3://b/p");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.path(), "s3://b/p");
    return error.what();
  }
  return "nothing was thrown";
}

TEST(S3Listing, HoldsObjectsAndFolders) {
  const ObjectListing listing =
      parse_s3_listing(list_xml(object_xml("p%2Fa+b%2Bc%25%C3%A9") + object_xml("p/second", "0") +
                                "<CommonPrefixes><Prefix>p%2Fx+y%2F</Prefix></CommonPrefixes>"
                                "<IsTruncated>false</IsTruncated>"),
                       "s3://b/p");
  ASSERT_EQ(listing.objects.size(), 2u);
  EXPECT_EQ(listing.objects[0].key, "p/a b+c%\u00e9");
  EXPECT_EQ(listing.objects[0].version.size, 5);
  EXPECT_EQ(listing.objects[0].version.etag, "\"e\"");
  EXPECT_EQ(listing.objects[0].version.modified_s, 60);
  EXPECT_EQ(listing.objects[1].version.size, 0);
  EXPECT_EQ(listing.folders, std::vector<std::string>{"p/x y/"});
  EXPECT_EQ(listing.next, "");
}

TEST(S3Listing, TagsAreTheSameHoweverTheirQuotesAreWritten) {
  for (const char* etag : {"&quot;e&quot;", "&#34;e&#34;", "&#x22;e&#x22;", "\"e\""})
    EXPECT_EQ(
        parse_s3_listing(list_xml(object_xml("a", "5", etag)), "s3://b").objects[0].version.etag,
        "\"e\"")
        << etag;
}

TEST(S3Listing, KeysOfAServerThatDoesNotEncodeThemAreTakenAsTheyAre) {
  const ObjectListing listing =
      parse_s3_listing(list_xml(object_xml("a+b%20c &amp; &#xe9;") +
                                    "<CommonPrefixes><Prefix>x+y&lt;/</Prefix></CommonPrefixes>",
                                ""),
                       "s3://b");
  EXPECT_EQ(listing.objects.at(0).key, "a+b%20c & \u00e9");
  EXPECT_EQ(listing.folders.at(0), "x+y</");
}

TEST(S3Listing, GoesOnWithItsToken) {
  const ObjectListing listing =
      parse_s3_listing(list_xml("<IsTruncated>true</IsTruncated><NextContinuationToken>1/a+b&amp;="
                                "</NextContinuationToken>"),
                       "s3://b");
  EXPECT_EQ(listing.next, "1/a+b&=");
}

TEST(S3Listing, WhatIsNoWholeListIsRefused) {
  EXPECT_NE(refused_s3(list_xml("<IsTruncated>true</IsTruncated>")).find("no way to go on"),
            std::string::npos);
  for (const char* other : {"", "<html>log in</html>", "{\"objects\": []}", "<Error></Error>"})
    EXPECT_NE(refused_s3(other).find("no list of objects"), std::string::npos) << other;
  const std::string whole = list_xml(object_xml("a") + object_xml("b"));
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_NE(refused_s3(whole.substr(0, size)), "nothing was thrown") << size;
}

TEST(S3Listing, ObjectsThatLackAPartAreRefused) {
  for (const char* size : {"-1", "", "5 ", "99999999999999999999", "0x5"})
    EXPECT_NE(refused_s3(list_xml(object_xml("a", size))).find("size"), std::string::npos) << size;
  EXPECT_NE(refused_s3(list_xml("<Contents><Key>a</Key><Size>1</Size></Contents>")).find("ETag"),
            std::string::npos);
  EXPECT_NE(refused_s3(list_xml("<Contents><Size>1</Size></Contents>")).find("Key"),
            std::string::npos);
}

std::string upload_xml(std::string_view key, std::string_view id) {
  return fmt::format(
      "<Upload><Key>{}</Key><UploadId>{}</UploadId><Initiator><ID>i</ID></Initiator>"
      "<StorageClass>STANDARD</StorageClass><Initiated>2026-01-31T10:20:30.000Z</Initiated>"
      "</Upload>",
      key, id);
}
std::string uploads_xml(std::string_view inside,
                        std::string_view encoding = "<EncodingType>url</EncodingType>") {
  return fmt::format(
      "<?xml version=\"1.0\"?>\n<ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/\">"
      "<Bucket>b</Bucket><KeyMarker></KeyMarker><UploadIdMarker/><Prefix>p%2F</Prefix>{}{}"
      "</ListMultipartUploadsResult>",
      encoding, inside);
}
std::string refused_uploads(const std::string& xml) {
  try {
    parse_s3_uploads(xml, "s3://b/p");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.path(), "s3://b/p");
    return error.what();
  }
  return "nothing was thrown";
}

TEST(S3Uploads, SeveralOfOneKeyAreSeveral) {
  const UploadListing listing =
      parse_s3_uploads(uploads_xml(upload_xml("p%2Fa+b%2Bc%25%C3%A9", "one&amp;.-_") +
                                   upload_xml("p%2Fa+b%2Bc%25%C3%A9", "two") +
                                   "<CommonPrefixes><Prefix>p%2Fx%2F</Prefix></CommonPrefixes>"
                                   "<IsTruncated>false</IsTruncated>"),
                       "s3://b/p");
  ASSERT_EQ(listing.uploads.size(), 2u);
  EXPECT_EQ(listing.uploads[0].key, "p/a b+c%\u00e9");
  EXPECT_EQ(listing.uploads[0].id, "one&.-_");
  EXPECT_EQ(listing.uploads[1].key, listing.uploads[0].key);
  EXPECT_EQ(listing.uploads[1].id, "two");
  EXPECT_EQ(listing.next_key, "");
  EXPECT_TRUE(parse_s3_uploads(uploads_xml(""), "s3://b").uploads.empty());
}

TEST(S3Uploads, KeysOfAServerThatDoesNotEncodeThemAreTakenAsTheyAre) {
  const UploadListing listing =
      parse_s3_uploads(uploads_xml(upload_xml("a+b%20c &amp; &#xe9;", "i"), ""), "s3://b");
  EXPECT_EQ(listing.uploads.at(0).key, "a+b%20c & \u00e9");
}

TEST(S3Uploads, GoOnBehindTheLastWhereThereAreMore) {
  const std::string next =
      "<NextKeyMarker>p%2Fa+b</NextKeyMarker><NextUploadIdMarker>i&amp;j</NextUploadIdMarker>";
  const UploadListing listing =
      parse_s3_uploads(uploads_xml(next + "<IsTruncated>true</IsTruncated>"), "s3://b");
  EXPECT_EQ(listing.next_key, "p/a b");
  EXPECT_EQ(listing.next_id, "i&j");
  EXPECT_EQ(
      parse_s3_uploads(uploads_xml(next + "<IsTruncated>false</IsTruncated>"), "s3://b").next_key,
      "");
}

TEST(S3Uploads, WhatIsNoWholeListIsRefused) {
  EXPECT_NE(refused_uploads(uploads_xml("<IsTruncated>true</IsTruncated>")).find("no way to go on"),
            std::string::npos);
  // A store that does not know the call may list objects.
  for (const std::string& other : {std::string(), std::string("<html>log in</html>"),
                                   list_xml(object_xml("a")), std::string("<Error></Error>")})
    EXPECT_NE(refused_uploads(other).find("no list of uploads"), std::string::npos) << other;
  const std::string whole = uploads_xml(upload_xml("a", "i") + upload_xml("b", "j"));
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_NE(refused_uploads(whole.substr(0, size)), "nothing was thrown") << size;
}

TEST(S3Uploads, ThoseThatLackAPartAreRefused) {
  EXPECT_NE(refused_uploads(uploads_xml(upload_xml("a", ""))).find("UploadId"), std::string::npos);
  EXPECT_NE(refused_uploads(uploads_xml("<Upload><Key>a</Key></Upload>")).find("UploadId"),
            std::string::npos);
  EXPECT_NE(refused_uploads(uploads_xml("<Upload><UploadId>i</UploadId></Upload>")).find("its Key"),
            std::string::npos);
}

TEST(PercentEncoding, KeepsLettersAndDigits) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a b/c+d%\u00e9"), "a%20b%2Fc%2Bd%25%C3%A9");
  EXPECT_EQ(percent_encoded("a/b", "/"), "a/b");
}

TEST(PercentEncoding, ReturnsAsItWent) {
  std::string every;
  for (int letter = 0; letter < 256; ++letter) every += static_cast<char>(letter);
  EXPECT_EQ(percent_decoded(percent_encoded(every)), every);
  EXPECT_EQ(percent_decoded("a+b"), "a b");
}

TEST(PercentEncoding, WhatIsNoEscapeStaysAsItIs) {
  for (const char* text : {"%", "%4", "100%", "%zz", "% 5", "%-5", "%0x", "a%4"})
    EXPECT_EQ(percent_decoded(text), text);
  EXPECT_EQ(percent_decoded("%41%"), "A%");
}

}  // namespace
}  // namespace cellfeed::cloud
