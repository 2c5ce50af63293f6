#include "cellfeed/cloud/object_listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::cloud {
namespace {

using Parse = ObjectListing (*)(std::string_view, const std::string&);

std::string refused_list(Parse parse, const std::string& text) {
  try {
    parse(text, "az://b/p");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.path(), "az://b/p");
    return error.what();
  }
  return "nothing was thrown";
}

// As Microsoft's documentation of List Blobs shows it.
std::string blob_xml(std::string_view name, std::string_view size = "5",
                     std::string_view more = "") {
  return fmt::format(
      "<Blob><Name>{}</Name><Properties><Creation-Time>Thu, 01 Jan 1970 00:00:00 GMT"
      "</Creation-Time><Last-Modified>Thu, 01 Jan 1970 00:01:00 GMT</Last-Modified>"
      "<Etag>0x8D</Etag>{}<Content-Length>{}</Content-Length></Properties></Blob>",
      name, more, size);
}
std::string azure_xml(std::string_view inside, std::string_view marker = "") {
  return fmt::format(
      "<?xml version=\"1.0\"?><EnumerationResults ServiceEndpoint=\"https://a/\">"
      "<Prefix>p/</Prefix><Blobs>{}</Blobs><NextMarker>{}</NextMarker></EnumerationResults>",
      inside, marker);
}

TEST(AzureListing, HoldsBlobsAndFolders) {
  const ObjectListing listing = parse_azure_listing(
      azure_xml(blob_xml("p/a b&amp;c%") +
                    blob_xml("p/folder", "0", "<ResourceType>directory</ResourceType>") +
                    "<BlobPrefix><Name>p/folder/</Name></BlobPrefix>",
                "more&amp;"),
      "az://b/p");
  ASSERT_EQ(listing.objects.size(), 1u);
  EXPECT_EQ(listing.objects[0].key, "p/a b&c%");
  EXPECT_EQ(listing.objects[0].version.size, 5);
  EXPECT_EQ(listing.objects[0].version.etag, "\"0x8D\"");  // as headers have it
  EXPECT_EQ(listing.objects[0].version.modified_s, 60);
  EXPECT_EQ(listing.folders, std::vector<std::string>{"p/folder/"});
  EXPECT_EQ(listing.next, "more&");
}

TEST(AzureListing, WhatIsNoWholeListIsRefused) {
  for (const char* other : {"", "<html>log in</html>", "{}", "<Error></Error>"})
    EXPECT_NE(refused_list(parse_azure_listing, other).find("no list of objects"),
              std::string::npos);
  const std::string whole = azure_xml(blob_xml("a") + blob_xml("b"));
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_NE(refused_list(parse_azure_listing, whole.substr(0, size)), "nothing was thrown")
        << size;
  for (const char* size : {"-1", "", "5 ", "99999999999999999999"})
    EXPECT_NE(refused_list(parse_azure_listing, azure_xml(blob_xml("a", size))).find("size"),
              std::string::npos)
        << size;
  EXPECT_NE(refused_list(parse_azure_listing,
                         azure_xml("<Blob><Name Encoded=\"true\">%EF%BF%BE</Name></Blob>"))
                .find("without a name that XML can hold"),
            std::string::npos);
}

TEST(GoogleListing, HoldsObjectsAndFolders) {
  const ObjectListing listing = parse_google_listing(
      R"({"items": [{"name": "p/a b", "size": "5", "generation": "17",
                     "updated": "1970-01-01T00:01:00.123Z"}],
          "prefixes": ["p/x/"], "nextPageToken": "more=="})",
      "gs://b/p");
  ASSERT_EQ(listing.objects.size(), 1u);
  EXPECT_EQ(listing.objects[0].key, "p/a b");
  EXPECT_EQ(listing.objects[0].version.size, 5);
  EXPECT_EQ(listing.objects[0].version.etag, "17");
  EXPECT_EQ(listing.objects[0].version.etag_header, "x-goog-generation");
  EXPECT_EQ(listing.objects[0].version.modified_s, 60);
  EXPECT_EQ(listing.folders, std::vector<std::string>{"p/x/"});
  EXPECT_EQ(listing.next, "more==");
  EXPECT_TRUE(parse_google_listing("{}", "gs://b").objects.empty());
}

TEST(GoogleListing, WhatIsNoWholeListIsRefused) {
  const std::string whole = R"({"items": [{"name": "a", "size": "5", "generation": "17"}]})";
  EXPECT_EQ(parse_google_listing(whole, "gs://b").objects.size(), 1u);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refused_list(parse_google_listing, whole.substr(0, size)), "nothing was thrown")
        << size;
  for (const char* other :
       {"[]", "7", "<html/>", R"({"items": [7]})", R"({"items": {"a": 7}})", R"({"items": 7})",
        R"({"items": [{"name": "a", "size": 5, "generation": "17"}]})",
        R"({"items": [{"name": "a", "size": "-5", "generation": "17"}]})",
        R"({"items": [{"name": "a", "size": "5"}]})",
        R"({"items": [{"size": "5", "generation": "17"}]})", R"({"prefixes": [7]})"})
    EXPECT_NE(refused_list(parse_google_listing, other), "nothing was thrown") << other;
}

}  // namespace
}  // namespace cellfeed::cloud
