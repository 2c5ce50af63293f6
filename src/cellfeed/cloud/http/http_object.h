// HttpObject: an object that is read by ranges over HTTP, and the answers that say what became of
// it. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/content_checksum.h"
#include "cellfeed/cloud/http/http_loop.h"

namespace cellfeed::cloud {

// What is pinned when an object is opened.
struct ObjectVersion {
  std::int64_t size = 0;
  std::string etag{};                         // empty: the server gives none
  std::string_view etag_header = "etag";      // that answers have it in
  std::string last_modified{};                // the same
  std::int64_t modified_s = -1;               // the same, as seconds since 1970
  std::int64_t seen_s = -1;                   // when the server told it, by its clock
  std::optional<ContentChecksum> checksum{};  // of all bytes, where the store tells one

  // What tells it from others of its size: a tag that is of its bytes, else also its time. Empty:
  // nothing does.
  std::string mark() const;
  // Whether the answer is of this version, as far as it tells.
  bool is_of(const HttpAnswer& answer) const;
  // Whether it says of which version it is, or need not.
  bool is_told_by(const HttpAnswer& answer) const;
};

class HttpObject {
 public:
  virtual ~HttpObject() = default;
  virtual const std::string& path() const = 0;  // for errors
  virtual const ObjectVersion& version() const = 0;
  // Its address, headers and signature, without a range. fresh: after a signature was refused as
  // too old, of which kNotFound and kIo may be thrown. Not called on the loop's thread.
  virtual HttpRequest request(bool fresh) const = 0;
  // It is no longer as version() says.
  virtual void forget() const {}
};

// What an answer to a request for a range means.
struct RangeOutcome {
  enum class Kind { kDone, kAgain, kOldCredentials, kFailed };
  Kind kind = Kind::kDone;
  ErrorKind error_kind = ErrorKind::kIo;
  std::string reason{};
  bool is_throttled = false;
  // Not before that, where the server says so.
  std::chrono::milliseconds wait{0};
};
RangeOutcome judge_range(const HttpAnswer& answer, const ObjectVersion& version,
                         std::int64_t offset, std::int64_t length);

// A page for people came in place of data, as servers send it that want a login.
bool is_page(const HttpAnswer& answer);
inline constexpr std::string_view kPageSent =
    "the server sent an HTML page in place of the file: the address may be one for people, or want "
    "a login (storage_options with headers)";

// A time of HTTP as seconds since 1970; -1 where it is none.
std::int64_t parse_http_time(std::string_view text);
// A number of at least 0 in decimal digits and nothing else.
std::optional<std::int64_t> parse_count(std::string_view text);
// The version that an answer to a HEAD tells of. Empty where it gives no size.
std::optional<ObjectVersion> version_of(const HttpAnswer& answer);
// The same of an answer to a GET of its first byte, which has the size beside the range; of an
// empty object that is a refusal of the range, or all of it.
std::optional<ObjectVersion> version_of_first_byte(const HttpAnswer& answer);

// What an answer that is no success says, in a few words: "403 Forbidden (AccessDenied: ...)".
std::string describe_refusal(const HttpAnswer& answer);
// Whether it was refused for credentials that were good once.
bool is_old_credentials(const HttpAnswer& answer);
// Whether the same request may succeed later.
bool is_transient(const HttpAnswer& answer);
// What the server asks to wait before it is asked again; 0 where it says nothing.
std::chrono::milliseconds retry_after(const HttpAnswer& answer);

}  // namespace cellfeed::cloud
