#include "cellfeed/cloud/google/google_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/bucket.h"
#include "cellfeed/cloud/google/google_access.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/json_member.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {
namespace {

// The version of an object is its generation, which answers with bytes have in a header.
constexpr std::string_view kVersionHeader = "x-goog-generation";
// Pieces of an upload are of some times 256 KiB.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;
// Of one piece, one after the other.
constexpr int kMaxFailed = 7;
constexpr std::chrono::milliseconds kFirstPieceWait{100};
constexpr std::chrono::seconds kStalled{60};

// area: what goes before the API's own path, "/download" or "/upload".
HttpRequest google_request(std::string method, std::string_view area, const BucketPath& path,
                           std::string_view query, bool is_of_object = true) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = fmt::format("{}{}/storage/v1/b/{}/o", google_access(path.bucket)->base_url(), area,
                            percent_encoded(path.bucket));
  if (is_of_object) request.url += fmt::format("/{}", percent_encoded(path.key));
  if (!query.empty()) request.url += fmt::format("?{}", query);
  return request;
}

std::string with_condition(std::string query, const Precondition& condition) {
  if (condition.is_absent) query += "&ifGenerationMatch=0";
  if (!condition.version.empty()) query += fmt::format("&ifGenerationMatch={}", condition.version);
  return query;
}

// What does not occur in the bytes.
std::string boundary_for(std::string_view bytes) {
  std::random_device random;
  for (;;) {
    const std::string boundary =
        fmt::format("cellfeed{:08x}{:08x}{:08x}", random(), random(), random());
    if (bytes.find(boundary) == std::string_view::npos) return boundary;
  }
}

// Numbers of 64 bits are texts in Google's JSON. Empty where it lacks one.
std::optional<ObjectVersion> version_of_resource(const nlohmann::json& object) {
  const auto size = parse_count(text_member(object, "size"));
  const std::string generation = text_member(object, "generation");
  if (!size || !parse_count(generation)) return std::nullopt;
  return ObjectVersion{
      .size = *size,
      .etag = generation,
      .etag_header = kVersionHeader,
      .modified_s = parse_iso_time(text_member(object, "updated")),
      .checksum = parse_checksum(ChecksumKind::kCrc32c, text_member(object, "crc32c"))};
}

class GoogleStore final : public ObjectStore {
 public:
  HttpRequest to_read(const BucketPath& path, const ObjectVersion* pinned) const override {
    std::string query = "alt=media";
    if (pinned != nullptr) query += fmt::format("&ifGenerationMatch={}", pinned->etag);
    HttpRequest request = google_request("GET", "/download", path, query);
    // What was stored compressed is to be sent as it is stored: ranges are of that.
    request.headers.emplace_back("Accept-Encoding: gzip");
    return request;
  }
  HttpRequest to_look(const BucketPath& path) const override {
    return google_request("GET", "", path, "fields=size,generation,updated,crc32c");
  }
  HttpRequest to_list(const BucketPath& bucket, const ListQuery& query) const override {
    std::string text = fmt::format(
        "fields=items(name,size,generation,updated,crc32c),prefixes,nextPageToken&maxResults={}&"
        "prefix={}",
        query.max_keys, percent_encoded(query.prefix));
    if (query.into_folders) text += "&delimiter=%2F";
    if (!query.token.empty()) text += fmt::format("&pageToken={}", percent_encoded(query.token));
    return google_request("GET", "", bucket, text, false);
  }
  // With its name before it, in one body of two parts (RFC 2387).
  HttpRequest to_write(const BucketPath& path, const StagedFile::Content& content,
                       const Precondition& condition) const override {
    HttpRequest request = google_request("POST", "/upload", path,
                                         with_condition("uploadType=multipart", condition), false);
    const std::string bytes = text_of(content);
    const std::string boundary = boundary_for(bytes);
    request.content_type = fmt::format("multipart/related; boundary={}", boundary);
    request.body = fmt::format(
        "--{}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{}\r\n--{}\r\n"
        "Content-Type: application/octet-stream\r\n\r\n",
        boundary, nlohmann::json{{"name", path.key}}.dump(), boundary);
    request.body += bytes;
    request.body += fmt::format("\r\n--{}--\r\n", boundary);
    return request;
  }
  HttpRequest to_remove(const BucketPath& path) const override {
    return google_request("DELETE", "", path, "");
  }
  void authorize(HttpRequest& request, const BucketPath& path, bool fresh) const override {
    google_access(path.bucket)->authorize(request, fresh);
  }
  void look_at_settings(const BucketPath& path) const override { google_access(path.bucket); }

  std::optional<ObjectVersion> version_of_look(const HttpAnswer& answer) const override {
    const auto object = nlohmann::json::parse(answer.body, nullptr, false);
    return version_of_resource(object).value_or(ObjectVersion{});
  }
  ObjectListing parse_listing(std::string_view text, const std::string& path) const override {
    return parse_google_listing(text, path);
  }
  bool is_no_bucket(const HttpAnswer& answer) const override { return answer.status == 404; }

  bool write_in_parts(const BucketPath& path, const StagedFile::Content& content,
                      const Precondition& condition) const override {
    const HttpAnswer begun =
        ask_store(path, google_request("POST", "/upload", path,
                                       with_condition(fmt::format("uploadType=resumable&name={}",
                                                                  percent_encoded(path.key)),
                                                      condition),
                                       false));
    if (condition.is_any() && begun.status == 412) return false;
    // Whoever has the address may write: nothing else authorizes what is sent there.
    const std::string session(begun.header("location"));
    if (begun.status / 100 != 2 || session.empty()) throw_refused(path, begun);
    const HttpAnswer ended = send(path, session, content);
    if (ended.status / 100 == 2) return true;
    if (condition.is_any() && ended.status == 412) return is_stored(path, content);
    if (ended.status == 404 || ended.status == 410)
      throw_error(ErrorKind::kIo, path.text(), "the store has given up its upload: write it again");
    throw_refused(path, ended);
  }

 private:
  // The answer to the last piece, or the first that is not as it should be.
  static HttpAnswer send(const BucketPath& path, const std::string& session,
                         const StagedFile::Content& content) {
    int n_failed = 0;
    for (std::int64_t at = 0;;) {
      const auto length = std::min(kPieceBytes, content.size - at);
      HttpRequest request = to_session(session, fmt::format("{}-{}", at, at + length - 1), content);
      request.body.resize(static_cast<std::size_t>(length));
      content.read(at, std::as_writable_bytes(std::span(request.body)));
      HttpAnswer answer = ask(request, {.stalled = kStalled});
      if (is_transient(answer)) {
        if (++n_failed > kMaxFailed) return answer;
        exec::sleep_unless_stopped(
            std::max(kFirstPieceWait * (1 << n_failed), retry_after(answer)));
        // How much of it has come: nothing is sent twice.
        answer = ask_until_answered(to_session(session, "*", content));
      }
      if (answer.status != 308) return answer;
      const std::int64_t kept = bytes_kept(answer);
      if (kept < at || kept >= content.size)
        throw_error(ErrorKind::kIo, path.text(), "the store has kept {} bytes of {} that were sent",
                    kept, at + length);
      if (kept > at) n_failed = 0;
      if (kept == at && ++n_failed > kMaxFailed)
        throw_error(ErrorKind::kIo, path.text(),
                    "the store takes nothing of an upload: {} bytes "
                    "of {} were kept",
                    kept, content.size);
      at = kept;
    }
  }
  static HttpRequest to_session(const std::string& session, const std::string& range,
                                const StagedFile::Content& content) {
    HttpRequest request;
    request.method = "PUT";
    request.url = session;
    request.headers.push_back(fmt::format("Content-Range: bytes {}/{}", range, content.size));
    return request;
  }
  // Of "Range: bytes=0-99"; none were kept where there is no such header.
  static std::int64_t bytes_kept(const HttpAnswer& answer) {
    const std::string_view range = answer.header("range");
    const auto last = parse_count(range.substr(range.rfind('-') + 1));
    return last ? *last + 1 : 0;
  }
};

}  // namespace

ObjectListing parse_google_listing(std::string_view json, const std::string& path) {
  const auto body = nlohmann::json::parse(json, nullptr, false);
  if (!body.is_object())
    throw_error(ErrorKind::kIo, path, "the server answered with no list of objects");
  ObjectListing listing;
  listing.next = text_member(body, "nextPageToken");
  for (const auto& object : body.value("items", nlohmann::json::array())) {
    const auto version = version_of_resource(object);
    if (!version || text_member(object, "name").empty())
      throw_error(ErrorKind::kIo, path,
                  "the server's list of objects has one without its name, size or generation");
    listing.objects.push_back({text_member(object, "name"), *version});
  }
  for (const auto& folder : body.value("prefixes", nlohmann::json::array())) {
    if (!folder.is_string())
      throw_error(ErrorKind::kIo, path, "the server's list of objects has a folder without a name");
    listing.folders.push_back(folder.get<std::string>());
  }
  return listing;
}

const ObjectStore& google_store() {
  static const auto* store = new GoogleStore;
  return *store;
}

}  // namespace cellfeed::cloud
