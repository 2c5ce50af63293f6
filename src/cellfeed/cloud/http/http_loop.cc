#include "cellfeed/cloud/http/http_loop.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>
#include <queue>
#include <thread>
#include <unordered_set>
#include <utility>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/trimmed.h"
#include "cellfeed/cloud/http/certificates.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/thread_start.h"

namespace cellfeed::cloud {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;
constexpr long kKeptConnections = 512;
constexpr int kMaxRedirects = 5;

// "https://host:port"
std::string_view origin_of(std::string_view url) {
  const auto host = url.find("://");
  return host == std::string_view::npos ? url : url.substr(0, url.find_first_of("/?#", host + 3));
}

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

class HttpLoop::Transfer {
 public:
  Transfer(HttpRequest request, const HttpTimeouts& timeouts, std::function<void(HttpAnswer)> done)
      : request_(std::move(request)), done_(std::move(done)), easy_(curl_easy_init()) {
    if (!easy_) throw std::bad_alloc();
    set_up(timeouts);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  CURL* easy() const { return easy_.get(); }
  std::size_t received() const { return received_; }

  HttpAnswer finish(CURLcode code) {
    long status = 0;
    curl_easy_getinfo(easy(), CURLINFO_RESPONSE_CODE, &status);
    answer_.status = static_cast<int>(status);
    answer_.is_unreachable = code == CURLE_COULDNT_RESOLVE_HOST ||
                             code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_CONNECT ||
                             code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
                             code == CURLE_PEER_FAILED_VERIFICATION ||
                             code == CURLE_SSL_CACERT_BADFILE;
    if (code != CURLE_OK && !is_refused_range_)
      answer_.failure = failure_[0] != '\0' ? failure_ : curl_easy_strerror(code);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
      const auto named = named_certificates();
      answer_.failure += named ? fmt::format(" (certificates that are trusted: {}={})",
                                             named->variable, named->path)
                               : " (SSL_CERT_FILE may name a file of certificates to trust)";
    }
    return std::move(answer_);
  }
  std::function<void(HttpAnswer)> take_done() { return std::move(done_); }
  // Whether the answer names another address, which is to be asked next. Not curl's own way: that
  // takes all but a few known headers along to other servers.
  bool follow() {
    char* next = nullptr;
    curl_easy_getinfo(easy(), CURLINFO_REDIRECT_URL, &next);
    if (next == nullptr || request_.signer != nullptr || n_redirects_ == kMaxRedirects)
      return false;
    const std::string url = next;
    const bool is_own_server = lower(origin_of(url)) == lower(origin_of(request_.url));
    // What is sent may be a secret.
    if (!is_own_server && !request_.body.empty()) return false;
    ++n_redirects_;
    curl_easy_setopt(easy(), CURLOPT_URL, url.c_str());
    set_headers(is_own_server);
    answer_ = {};
    received_ = 0;
    return true;
  }

 private:
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  struct FreeEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };

  void set_up(const HttpTimeouts& timeouts) {
    const auto set = [this](CURLoption option, auto value) {
      curl_easy_setopt(easy(), option, value);
    };
    set(CURLOPT_PRIVATE, this);
    set(CURLOPT_ERRORBUFFER, failure_);
    set(CURLOPT_URL, request_.url.c_str());
    if (request_.is_direct) set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    // Of several connections, each has a share of the link; one for all is held up by a lost
    // packet.
    set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(timeouts.connect.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(timeouts.stalled.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeouts.whole.count()));
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_USERAGENT, "cellfeed");
    set_certificates();
    set_method();
    set_headers(true);
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
    set(CURLOPT_HEADERDATA, this);
  }

  void set_certificates() {
    const auto named = named_certificates();
    const char* file = named ? named->path : certificates_of_machine();
    if (named && named->is_folder) {
      curl_easy_setopt(easy(), CURLOPT_CAPATH, named->path);
      file = nullptr;
    }
    if (named || file != nullptr) curl_easy_setopt(easy(), CURLOPT_CAINFO, file);
  }

  bool has_body() const { return request_.method == "PUT" || request_.method == "POST"; }

  void set_method() {
    if (request_.method == "HEAD") {
      curl_easy_setopt(easy(), CURLOPT_NOBODY, 1L);
    } else if (request_.method == "DELETE") {
      curl_easy_setopt(easy(), CURLOPT_CUSTOMREQUEST, "DELETE");
    } else if (has_body()) {
      curl_easy_setopt(easy(), CURLOPT_POSTFIELDSIZE, static_cast<long>(request_.body.size()));
      curl_easy_setopt(easy(), CURLOPT_POSTFIELDS, request_.body.data());
      curl_easy_setopt(easy(), CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    }
  }

  void add_header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(headers_.release());
    headers_.reset(longer);
  }

  void set_headers(bool is_own_server) {
    std::vector<std::string> lines = request_.headers;
    if (is_own_server)
      lines.insert(lines.end(), request_.private_headers.begin(), request_.private_headers.end());
    if (has_body()) lines.push_back("Content-Type: " + request_.content_type);
    if (!request_.out.empty())
      lines.push_back(fmt::format("Range: bytes={}-{}", request_.offset,
                                  request_.offset + std::ssize(request_.out) - 1));
    if (request_.signer)
      for (std::string& line : request_.signer->sign(request_, lines, std::time(nullptr)))
        lines.push_back(std::move(line));
    lines.emplace_back("Expect:");
    headers_.reset();
    for (const std::string& line : lines) add_header(line);
    curl_easy_setopt(easy(), CURLOPT_HTTPHEADER, headers_.get());
  }

  static std::size_t on_header(char* bytes, std::size_t size, std::size_t n, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view line(bytes, size * n);
    if (line.starts_with("HTTP/")) transfer.answer_.headers.clear();  // of a 100 before it
    if (const auto colon = line.find(':'); colon != std::string_view::npos)
      transfer.answer_.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    return line.size();
  }

  static std::size_t on_body(char* bytes, std::size_t size, std::size_t n, void* self) {
    return static_cast<Transfer*>(self)->take({bytes, size * n});
  }

  // Returns less than there is where the rest is of no use.
  std::size_t take(std::string_view bytes) {
    received_ += bytes.size();
    long status = 0;
    curl_easy_getinfo(easy(), CURLINFO_RESPONSE_CODE, &status);
    if (!request_.out.empty() && status == 206) {
      if (bytes.size() > request_.out.size() - answer_.filled) return 0;
      std::memcpy(request_.out.data() + answer_.filled, bytes.data(), bytes.size());
      answer_.filled += bytes.size();
      return bytes.size();
    }
    if (!request_.out.empty() && status / 100 == 2) {
      is_refused_range_ = true;  // the whole object comes instead
      return 0;
    }
    answer_.body.append(
        bytes.substr(0, kMaxTextBytes - std::min(kMaxTextBytes, answer_.body.size())));
    return bytes.size();
  }

  const HttpRequest request_;
  std::function<void(HttpAnswer)> done_;
  HttpAnswer answer_;
  std::size_t received_ = 0;
  bool is_refused_range_ = false;
  int n_redirects_ = 0;
  char failure_[CURL_ERROR_SIZE] = {};
  std::unique_ptr<curl_slist, FreeList> headers_;
  const std::unique_ptr<CURL, FreeEasy> easy_;  // goes first
};

class HttpLoop::Impl {
 public:
  Impl() : multi_(curl_multi_init()) {
    if (multi_ == nullptr) throw std::bad_alloc();
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kKeptConnections);
    thread_ = exec::start_thread([this](const std::stop_token&) { run(); });
  }
  ~Impl() { end(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void post(std::function<void()> work) {
    const std::scoped_lock lock(mutex_);
    posted_.push_back(std::move(work));
    if (multi_ != nullptr) curl_multi_wakeup(multi_);
  }
  void end() {
    if (!thread_.joinable()) return;
    post([this] { is_ended_ = true; });
    thread_.join();
    for (Transfer* transfer : transfers_) {
      curl_multi_remove_handle(multi_, transfer->easy());
      delete transfer;
    }
    transfers_.clear();
    const std::scoped_lock lock(mutex_);
    curl_multi_cleanup(std::exchange(multi_, nullptr));
  }
  void at(Clock::time_point time, std::function<void()> work) {
    timers_.push({time, ++last_timer_, std::move(work)});
  }
  Transfer* start(HttpRequest request, const HttpTimeouts& timeouts,
                  std::function<void(HttpAnswer)> done) {
    auto transfer = std::make_unique<Transfer>(std::move(request), timeouts, std::move(done));
    transfers_.insert(transfer.get());
    curl_multi_add_handle(multi_, transfer->easy());
    return transfer.release();
  }
  void abort(Transfer* transfer) {
    if (transfers_.erase(transfer) == 0) return;
    curl_multi_remove_handle(multi_, transfer->easy());
    delete transfer;
  }

 private:
  struct Timer {
    Clock::time_point time;
    std::uint64_t number;
    std::function<void()> work;
    bool operator<(const Timer& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };

  void run() {
    while (!is_ended_) {
      run_posted();
      run_timers();
      int n_running = 0;
      curl_multi_perform(multi_, &n_running);
      hand_out_answers();
      if (!is_ended_) curl_multi_poll(multi_, nullptr, 0, poll_ms(), nullptr);
    }
  }
  void run_posted() {
    std::vector<std::function<void()>> work;
    {
      const std::scoped_lock lock(mutex_);
      work.swap(posted_);
    }
    for (const auto& each : work) each();
  }
  void run_timers() {
    while (!timers_.empty() && timers_.top().time <= Clock::now()) {
      const auto work = timers_.top().work;
      timers_.pop();
      work();
    }
  }
  int poll_ms() const {
    constexpr std::int64_t kLongest = 1000;
    if (timers_.empty()) return kLongest;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(timers_.top().time - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest));
  }
  void hand_out_answers() {
    int n_left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &n_left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      curl_multi_remove_handle(multi_, transfer->easy());
      if (code == CURLE_OK && transfer->follow()) {
        curl_multi_add_handle(multi_, transfer->easy());
        continue;
      }
      HttpAnswer answer = transfer->finish(code);
      const auto done = transfer->take_done();
      abort(transfer);
      done(std::move(answer));
    }
  }

  std::mutex mutex_;  // guards what follows, and the end of the first
  CURLM* multi_;      // null: ended
  std::vector<std::function<void()>> posted_;
  // Of the thread alone.
  std::unordered_set<Transfer*> transfers_;
  std::priority_queue<Timer> timers_;
  std::uint64_t last_timer_ = 0;
  bool is_ended_ = false;
  std::jthread thread_;
};

HttpLoop::HttpLoop() : impl_(std::make_unique<Impl>()) {}
HttpLoop::~HttpLoop() = default;
void HttpLoop::post(std::function<void()> work) { impl_->post(std::move(work)); }
void HttpLoop::end() { impl_->end(); }
void HttpLoop::at(Clock::time_point time, std::function<void()> work) {
  impl_->at(time, std::move(work));
}
HttpLoop::Transfer* HttpLoop::start(HttpRequest request, const HttpTimeouts& timeouts,
                                    std::function<void(HttpAnswer)> done) {
  return impl_->start(std::move(request), timeouts, std::move(done));
}
void HttpLoop::abort(Transfer* transfer) { impl_->abort(transfer); }
std::size_t HttpLoop::received(const Transfer& transfer) { return transfer.received(); }

namespace {

exec::PerProcess<std::unique_ptr<HttpLoop>>& loops() {
  static auto* all = new exec::PerProcess<std::unique_ptr<HttpLoop>>;
  return *all;
}

// Its thread must not outlive what curl and its TLS library keep, which they free when the process
// ends: this is called before they do. The loop stays, as other threads may still post to it.
void end_loop() {
  if (auto* loop = loops().peek()) (*loop)->end();
}

}  // namespace

HttpLoop& http_loop() {
  static const bool is_ready = [] {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    std::atexit(end_loop);
    return true;
  }();
  static_cast<void>(is_ready);
  return *loops().get([] { return std::make_unique<HttpLoop>(); });
}

}  // namespace cellfeed::cloud
