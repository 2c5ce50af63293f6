#include "cellfeed/cloud/http/http_object.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cellfeed/cloud/json_member.h"
#include "cellfeed/cloud/xml_elements.h"

namespace cellfeed::cloud {
namespace {

constexpr std::size_t kMaxShown = 200;
constexpr std::chrono::seconds kLongestServerWait{60};

struct Refusal {
  std::string code;
  std::string message;
};

// {"error": {"message": ..., "status": ...}}, and of tokens {"error": ..., "error_description":
// ...}
Refusal refusal_of_json(const nlohmann::json& body) {
  const auto error = body.is_object() ? body.find("error") : body.end();
  if (error == body.end()) return {};
  if (error->is_string())
    return {error->get<std::string>(), text_member(body, "error_description")};
  if (!error->is_object()) return {};
  std::string reason = text_member(*error, "status");
  if (const auto each = error->find("errors");
      each != error->end() && each->is_array() && !each->empty() && each->front().is_object())
    reason = text_member(each->front(), "reason");
  return {reason.empty() ? "error" : reason, text_member(*error, "message")};
}

Refusal refusal_of(const HttpAnswer& answer) {
  if (answer.body.starts_with('{'))
    return refusal_of_json(nlohmann::json::parse(answer.body, nullptr, false));
  Refusal refusal{std::string(element(answer.body, "Code")),
                  std::string(element(answer.body, "Message"))};
  if (refusal.code.empty()) refusal.code = answer.header("x-ms-error-code");
  return refusal;
}

// Of S3: of two requests at the same time, one is to be sent again.
bool is_conflict_for_now(const HttpAnswer& answer) {
  if (answer.status != 409) return false;
  const std::string_view code = element(answer.body, "Code");
  return code == "ConditionalRequestConflict" || code == "OperationAborted";
}

RangeOutcome failed(ErrorKind kind, std::string reason) {
  return {.kind = RangeOutcome::Kind::kFailed, .error_kind = kind, .reason = std::move(reason)};
}

RangeOutcome changed() {
  return failed(ErrorKind::kCorruptData,
                "the object was written again since it was opened, so rows and labels may not "
                "belong together: open it again");
}

// It may stay where bytes change that mean the same to people (RFC 9110, 8.8.1).
bool is_weak(std::string_view etag) { return etag.starts_with("W/"); }

struct ContentRange {
  std::int64_t first = -1;
  std::int64_t last = -1;
  std::optional<std::int64_t> size{};
};

// "bytes 0-99/1234" or "bytes 0-99/*"
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash)
    return std::nullopt;
  const auto first = parse_count(text.substr(0, dash));
  const auto last = parse_count(text.substr(dash + 1, slash - dash - 1));
  if (!first || !last) return std::nullopt;
  return ContentRange{*first, *last, parse_count(text.substr(slash + 1))};
}

std::optional<ObjectVersion> version_of_size(std::optional<std::int64_t> size,
                                             const HttpAnswer& answer) {
  if (!size) return std::nullopt;
  return ObjectVersion{.size = *size,
                       .etag = std::string(answer.header("etag")),
                       .last_modified = std::string(answer.header("last-modified")),
                       .modified_s = parse_http_time(answer.header("last-modified")),
                       .seen_s = parse_http_time(answer.header("date"))};
}

RangeOutcome judge_bytes(const HttpAnswer& answer, const ObjectVersion& version,
                         std::int64_t offset, std::int64_t length) {
  const auto range = parse_content_range(answer.header("content-range"));
  if (range && range->size && *range->size != version.size) return changed();
  if (!version.is_of(answer)) return changed();
  if (!version.is_told_by(answer))
    return failed(ErrorKind::kUnsupported,
                  "the server does not say of which version the bytes are that it sends, though it "
                  "did so of the file (ETag, Last-Modified): copy the file to a local disk");
  if (!range || range->first != offset || range->last != offset + length - 1)
    return {.kind = RangeOutcome::Kind::kAgain,
            .error_kind = ErrorKind::kCorruptData,
            .reason = fmt::format("the server sent another range than the one asked for, '{}'",
                                  answer.header("content-range").substr(0, kMaxShown))};
  if (!answer.is_whole()) return {.kind = RangeOutcome::Kind::kAgain, .reason = answer.failure};
  if (static_cast<std::int64_t>(answer.filled) != length)
    return {.kind = RangeOutcome::Kind::kAgain,
            .reason = fmt::format("the answer ended after {} of {} bytes", answer.filled, length)};
  return {};
}

}  // namespace

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string ObjectVersion::mark() const {
  if (!etag.empty() && !is_weak(etag)) return etag;
  if (etag.empty() || last_modified.empty()) return last_modified;
  return fmt::format("{} {}", etag, last_modified);
}

bool ObjectVersion::is_of(const HttpAnswer& answer) const {
  const std::string_view found_etag = answer.header(etag_header);
  const bool has_etag = !etag.empty() && !found_etag.empty();
  if (has_etag && found_etag != etag) return false;
  if (has_etag && !is_weak(etag)) return true;
  const std::string_view found_time = answer.header("last-modified");
  return last_modified.empty() || found_time.empty() || found_time == last_modified;
}

bool ObjectVersion::is_told_by(const HttpAnswer& answer) const {
  if (etag.empty() && last_modified.empty()) return true;
  return (!etag.empty() && !answer.header(etag_header).empty()) ||
         (!last_modified.empty() && !answer.header("last-modified").empty());
}

std::int64_t parse_http_time(std::string_view text) {
  return text.empty() ? -1 : curl_getdate(std::string(text).c_str(), nullptr);
}

bool is_old_credentials(const HttpAnswer& answer) {
  if (answer.status == 401) return true;
  if (answer.status != 400 && answer.status != 403) return false;
  const std::string_view code = element(answer.body, "Code");
  return code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidToken" ||
         code == "RequestTimeTooSkewed";
}

bool is_transient(const HttpAnswer& answer) {
  const int status = answer.status;
  return status == 0 || status == 408 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504 || is_conflict_for_now(answer) ||
         (status / 100 == 2 && !answer.is_whole());
}

std::chrono::milliseconds retry_after(const HttpAnswer& answer) {
  const auto seconds = parse_count(answer.header("retry-after"));
  return seconds
             ? std::min<std::chrono::seconds>(std::chrono::seconds(*seconds), kLongestServerWait)
             : std::chrono::seconds(0);
}

RangeOutcome judge_range(const HttpAnswer& answer, const ObjectVersion& version,
                         std::int64_t offset, std::int64_t length) {
  if (answer.status == 206) return judge_bytes(answer, version, offset, length);
  if (answer.status == 412 || answer.status == 416) return changed();
  if (answer.status == 404 || answer.status == 410)
    return failed(ErrorKind::kNotFound, "the object was removed since it was opened");
  if (is_old_credentials(answer))
    return {.kind = RangeOutcome::Kind::kOldCredentials, .reason = describe_refusal(answer)};
  if (is_transient(answer))
    return {.kind = RangeOutcome::Kind::kAgain,
            .reason = answer.status == 0 ? answer.failure : describe_refusal(answer),
            .is_throttled = answer.status == 503 || answer.status == 429,
            .wait = retry_after(answer)};
  if (is_page(answer)) return failed(ErrorKind::kCorruptData, std::string(kPageSent));
  if (answer.status / 100 == 2)
    return failed(ErrorKind::kUnsupported,
                  "the server sends whole files only, and no ranges of them: copy the file to a "
                  "local disk");
  return failed(ErrorKind::kIo, "the server refused to read it: " + describe_refusal(answer));
}

bool is_page(const HttpAnswer& answer) {
  return answer.status / 100 == 2 && answer.header("content-type").starts_with("text/html");
}

std::optional<ObjectVersion> version_of(const HttpAnswer& answer) {
  return version_of_size(parse_count(answer.header("content-length")), answer);
}

std::optional<ObjectVersion> version_of_first_byte(const HttpAnswer& answer) {
  if (answer.status == 206) {
    const auto range = parse_content_range(answer.header("content-range"));
    if (!range || range->first != 0 || range->last != 0) return std::nullopt;
    return version_of_size(range->size, answer);
  }
  const bool is_empty = answer.status == 416 ? answer.header("content-range") == "bytes */0"
                                             : answer.header("content-length") == "0";
  return is_empty ? version_of_size(0, answer) : std::nullopt;
}

std::string describe_refusal(const HttpAnswer& answer) {
  if (answer.status == 0) return answer.failure;
  std::string text = fmt::format("HTTP {}", answer.status);
  const Refusal refusal = refusal_of(answer);
  if (!refusal.code.empty())
    text += fmt::format(" ({}{}{})", refusal.code.substr(0, kMaxShown),
                        refusal.message.empty() ? "" : ": ", refusal.message.substr(0, kMaxShown));
  return text;
}

}  // namespace cellfeed::cloud
