// HttpLoop: HTTP requests of a process, many at once, on one thread. internal: who reads ranges
// uses range_fetcher.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cellfeed::cloud {

using Clock = std::chrono::steady_clock;

class RequestSigner;

struct HttpRequest {
  std::string method = "GET";  // or "HEAD", "PUT", "POST", "DELETE"
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  // The same, for the server of this URL and no other that it sends on to.
  std::vector<std::string> private_headers;
  std::string body;  // of a PUT or a POST
  std::string content_type = "application/octet-stream";
  bool is_direct = false;                       // past proxies: of a server beside this machine
  std::shared_ptr<const RequestSigner> signer;  // null: none
  // Of a range: where its bytes go, and the offset it begins at. Empty: the body is a text.
  std::span<std::byte> out;
  std::int64_t offset = 0;
};

// Signs requests as they are sent, each time anew. Never shown. Thread-safe.
class RequestSigner {
 public:
  virtual ~RequestSigner() = default;
  // Headers that sign it and those, "Name: value", that are sent with it.
  virtual std::vector<std::string> sign(const HttpRequest& request,
                                        std::span<const std::string> headers,
                                        std::time_t now) const = 0;
};

struct HttpAnswer {
  int status = 0;       // 0: none came
  std::string failure;  // why it did not come, or not whole; empty where it did
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;  // its first 64 MiB; of a range, where it was refused
  std::size_t filled = 0;
  bool is_unreachable = false;  // no connection could be made

  bool is_whole() const { return failure.empty(); }
  std::string_view header(std::string_view name) const;  // empty where there is none
};

struct HttpTimeouts {
  std::chrono::milliseconds connect{10'000};
  // Without one byte.
  std::chrono::seconds stalled{15};
  // From the first to the last byte; 0: as long as bytes come.
  std::chrono::milliseconds whole{0};
};

class HttpLoop {
 public:
  class Transfer;

  HttpLoop();
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  // Has it run on the loop's thread. Thread-safe.
  void post(std::function<void()> work);
  // Ends its thread and what is under way; nobody is told, nor later. Not from the loop's thread.
  void end();

  // The calls below are for the loop's thread, which also makes all calls to what they are given.

  void at(Clock::time_point time, std::function<void()> work);
  // done: once, unless it is aborted before.
  Transfer* start(HttpRequest request, const HttpTimeouts& timeouts,
                  std::function<void(HttpAnswer)> done);
  // Nothing is written to its buffer afterwards.
  void abort(Transfer* transfer);
  // Bytes of the body so far.
  static std::size_t received(const Transfer& transfer);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Of this process; made when it is first asked for, ended before the process ends.
HttpLoop& http_loop();

}  // namespace cellfeed::cloud
