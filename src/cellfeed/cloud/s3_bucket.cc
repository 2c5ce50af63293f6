#include "cellfeed/cloud/s3_bucket.h"

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/http_source.h"
#include "cellfeed/cloud/recent_objects.h"
#include "cellfeed/cloud/s3_access.h"

namespace cellfeed::cloud {
namespace {

// What is longer is sent in parts.
constexpr std::int64_t kMaxPutBytes = std::int64_t{32} << 20;
constexpr int kMaxListed = 1000;
constexpr std::int64_t kUploadPieceBytes = std::int64_t{8} << 20;

bool is_old_credentials(const HttpAnswer& answer) {
  return judge_range(answer, {}, 0, 0).kind == RangeOutcome::Kind::kOldCredentials;
}

HttpAnswer ask_bucket(const std::string& bucket, std::string_view key, std::string_view query,
                      const std::function<void(HttpRequest&)>& complete) {
  for (const bool fresh : {false, true}) {
    HttpRequest request = s3_access(bucket)->request(key, query, fresh);
    if (complete) complete(request);
    HttpAnswer answer = ask_until_answered(request);
    if (fresh || !is_old_credentials(answer)) return answer;
  }
  throw Error(ErrorKind::kInternal, "an answer was expected");
}

[[noreturn]] void throw_refused(const BucketPath& path, const HttpAnswer& answer) {
  if (const auto region = answer.header("x-amz-bucket-region");
      !region.empty() && region != s3_access(path.bucket)->region())
    throw_error(ErrorKind::kIo, path.text(),
                "the bucket lies in another region: set AWS_REGION={}, or give "
                "storage_options={{\"region\": \"{}\"}}",
                region, region);
  if (answer.body.find("NoSuchBucket") != std::string::npos)
    throw_error(ErrorKind::kNotFound, path.text(), "there is no bucket of this name: {}",
                path.bucket);
  if (answer.status == 0)
    throw_error(ErrorKind::kIo, path.text(), "the store could not be reached: {}", answer.failure);
  if (answer.status / 100 == 2)
    throw_error(ErrorKind::kIo, path.text(), "the store did not answer in full: {}",
                answer.failure);
  throw_error(ErrorKind::kIo, path.text(), "the store refused: {}", describe_refusal(answer));
}

void check_arrow(const arrow::Status& status, const BucketPath& path, const char* what) {
  if (!status.ok())
    throw_error(ErrorKind::kIo, path.text(), "could not {}: {}", what, status.message());
}

// In parts, each tried again by itself.
void write_in_parts(const BucketPath& path, const StagedFile::Content& content) {
  const auto files = s3_access(path.bucket)->arrow_files();
  auto opened = files->OpenOutputStream(fmt::format("{}/{}", path.bucket, path.key));
  check_arrow(opened.status(), path, "begin to write");
  const auto stream = *opened;
  std::vector<std::byte> piece(static_cast<std::size_t>(kUploadPieceBytes));
  try {
    for (std::int64_t at = 0; at < content.size; at += kUploadPieceBytes) {
      const auto part = std::span(piece).first(
          static_cast<std::size_t>(std::min(kUploadPieceBytes, content.size - at)));
      content.read(at, part);
      check_arrow(stream->Write(part.data(), std::ssize(part)), path, "write");
    }
  } catch (...) {
    static_cast<void>(stream->Abort());  // what failed before is told
    throw;
  }
  check_arrow(stream->Close(), path, "end writing");
  const auto written = look_at_object(path);
  if (!written || written->size != content.size)
    throw_error(ErrorKind::kIo, path.text(), "was not stored as it was sent: {} of {} bytes",
                written ? written->size : 0, content.size);
}

// False where the object is not as the condition, a header, wants it.
bool put_object(const BucketPath& path, const StagedFile::Content& content,
                const std::string& condition) {
  std::string body(static_cast<std::size_t>(content.size), '\0');
  content.read(0, std::as_writable_bytes(std::span(body)));
  const HttpAnswer answer = ask_bucket(path.bucket, path.key, "", [&](HttpRequest& request) {
    request.method = "PUT";
    request.body = body;
    if (!condition.empty()) request.headers.push_back(condition);
  });
  if (answer.status / 100 == 2) return true;
  if (condition.empty()) throw_refused(path, answer);
  if (answer.status == 404) return false;
  if (answer.status != 412 && answer.status != 409) throw_refused(path, answer);
  // What it met may be what it wrote itself, when the answer to that was lost and it was sent
  // again: by curl, too, which does not tell.
  try {
    return read_object(path) == body;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return false;  // it was of another, who has removed it
  }
}

// A HEAD has no body that would say why.
HttpAnswer ask_why(const BucketPath& path) {
  return ask_bucket(path.bucket, path.key, "",
                    [](HttpRequest& request) { request.headers.emplace_back("Range: bytes=0-0"); });
}

}  // namespace

std::optional<ObjectVersion> look_at_object(const BucketPath& path) {
  const HttpAnswer answer =
      ask_bucket(path.bucket, path.key, "", [](HttpRequest& request) { request.method = "HEAD"; });
  if (answer.status == 404) return std::nullopt;
  if (answer.status != 200) throw_refused(path, answer.status / 100 == 4 ? ask_why(path) : answer);
  auto version = version_of(answer);
  if (!version || version->etag.empty())
    throw_error(ErrorKind::kIo, path.text(), "the store says neither its size nor its version");
  recent_objects().keep(path.text(), *version);
  return version;
}

std::optional<ObjectVersion> recall_object(const BucketPath& path) {
  s3_access(path.bucket);  // of another place, nothing is known
  if (auto known = recent_objects().find(path.text())) return known;
  return look_at_object(path);
}

S3Listing list_objects(const std::string& bucket, const std::string& prefix, bool into_folders,
                       int max_keys, const std::string& token) {
  // Sorted by name, as what is signed is.
  std::string query;
  if (!token.empty()) query += fmt::format("continuation-token={}&", percent_encoded(token));
  if (into_folders) query += "delimiter=%2F&";
  query += fmt::format("encoding-type=url&list-type=2&max-keys={}&prefix={}", max_keys,
                       percent_encoded(prefix));
  const HttpAnswer answer = ask_bucket(bucket, "", query, nullptr);
  const BucketPath folder{"s3", bucket, prefix};
  if (answer.status != 200 || !answer.is_whole()) throw_refused(folder, answer);
  S3Listing listing = parse_s3_listing(answer.body, folder.text());
  for (const ListedObject& object : listing.objects)
    recent_objects().keep(BucketPath{"s3", bucket, object.key}.text(), object.version);
  return listing;
}

bool holds_objects(const BucketPath& folder) {
  if (recent_objects().is_folder(folder.text())) return true;
  // All that one answer holds: whoever asks for a folder opens its files next.
  const S3Listing found = list_objects(folder.bucket, folder.key.empty() ? "" : folder.key + "/",
                                       false, kMaxListed, "");
  if (!folder.key.empty() && found.objects.empty()) return false;
  recent_objects().keep_folder(folder.text());
  return true;
}

std::string read_object(const BucketPath& path) {
  HttpAnswer answer = ask_bucket(path.bucket, path.key, "", nullptr);
  if (answer.status == 404)
    throw_error(ErrorKind::kNotFound, path.text(), "there is no such object");
  if (answer.status != 200 || !answer.is_whole()) throw_refused(path, answer);
  return std::move(answer.body);
}

bool write_object(const BucketPath& path, const StagedFile::Content& content, bool is_new) {
  recent_objects().forget(path.text());
  if (content.size > kMaxPutBytes) {
    if (is_new && look_at_object(path)) return false;
    write_in_parts(path, content);
    return true;
  }
  return put_object(path, content, is_new ? "If-None-Match: *" : "");
}

bool replace_object(const BucketPath& path, const StagedFile::Content& content,
                    const ObjectVersion& replaced) {
  recent_objects().forget(path.text());
  return put_object(path, content, "If-Match: " + replaced.etag);
}

void remove_object(const BucketPath& path) {
  recent_objects().forget(path.text());
  for (std::string folder = path.text(); folder.rfind('/') > folder.find("://") + 2;) {
    folder.resize(folder.rfind('/'));
    recent_objects().forget(folder + "/");
  }
  const HttpAnswer answer = ask_bucket(path.bucket, path.key, "",
                                       [](HttpRequest& request) { request.method = "DELETE"; });
  if (answer.status / 100 != 2 && answer.status != 404) throw_refused(path, answer);
}

}  // namespace cellfeed::cloud
