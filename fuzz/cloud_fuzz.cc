// Any bytes as what a server answers: as a list of objects, an error that names the path or objects
// whose sizes are none below 0; as headers of a range, never the range that was asked for unless
// they say so.
#include <cstdlib>
#include <string>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/object_listing.h"
#include "fuzz/target.h"

namespace {

namespace cloud = cellfeed::cloud;

constexpr std::int64_t kSize = 1000;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_listing(std::string_view text) {
  for (const auto parse :
       {cloud::parse_s3_listing, cloud::parse_azure_listing, cloud::parse_google_listing})
    try {
      for (const cloud::ListedObject& object : parse(text, "s3://b/a").objects)
        require(object.version.size >= 0);
    } catch (const cellfeed::Error& error) {
      require(error.kind() == cellfeed::ErrorKind::kIo && error.path() == "s3://b/a");
    }
}

void check_uploads(std::string_view text) {
  try {
    for (const cloud::ListedUpload& upload : cloud::parse_s3_uploads(text, "s3://b/a").uploads)
      require(!upload.id.empty());
  } catch (const cellfeed::Error& error) {
    require(error.kind() == cellfeed::ErrorKind::kIo && error.path() == "s3://b/a");
  }
}

void check_range(std::string_view text) {
  cloud::ObjectVersion version;
  version.size = kSize;
  cloud::HttpAnswer answer;
  answer.status = 206;
  answer.body = text;
  answer.filled = 100;
  answer.headers["content-range"] = text;
  const auto outcome = cloud::judge_range(answer, version, 10, 100);
  if (outcome.kind == cloud::RangeOutcome::Kind::kDone)
    require(text.starts_with("bytes ") && text.find("10-") != std::string_view::npos &&
            text.find("109/") != std::string_view::npos);
  for (const int status : {200, 301, 400, 403, 404, 412, 416, 503}) {
    answer.status = status;
    answer.headers["retry-after"] = text;
    answer.headers["content-type"] = text;
    require(cloud::judge_range(answer, version, 10, 100).kind != cloud::RangeOutcome::Kind::kDone);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_listing(text);
  check_uploads(text);
  check_range(text);
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  const std::string texts[] = {
      "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>x/a%20b.h5ad</Key>"
      "<LastModified>2026-11-23T01:02:03.000Z</LastModified><ETag>&quot;abc&quot;</ETag>"
      "<Size>123</Size></Contents><CommonPrefixes><Prefix>x/y/</Prefix></CommonPrefixes>"
      "</ListBucketResult>",
      "<EnumerationResults><Blobs><Blob><Name>a&amp;b</Name><Properties><Etag>0x8D</Etag>"
      "<Content-Length>5</Content-Length></Properties></Blob><BlobPrefix><Name>x/</Name>"
      "</BlobPrefix></Blobs><NextMarker>m</NextMarker></EnumerationResults>",
      R"({"items": [{"name": "a", "size": "5", "generation": "17"}], "prefixes": ["x/"]})",
      "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
      "bytes 10-109/1000",
      "bytes 10-109/*"};
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const std::string& text : texts) seeds.emplace_back(text.begin(), text.end());
  return seeds;
}
