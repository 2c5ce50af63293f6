// Servers that do not answer, or refuse: what is asked to stop does, and spoils nothing for others.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/cache/block_cache.h"
#include "cellfeed/cloud/cache/block_source.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/http_source.h"
#include "cellfeed/cloud/http/range_fetcher.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::cloud {
namespace {

using namespace std::chrono_literals;

class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, any, length), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    EXPECT_EQ(::getsockname(socket_, any, &length), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/a";
  }
  ~SilentServer() { ::close(socket_); }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  const std::string& url() const { return url_; }
  int socket() const { return socket_; }

 private:
  const int socket_;
  std::string url_;
};

// Gives each connection the next of its answers.
class AnsweringServer : public SilentServer {
 public:
  explicit AnsweringServer(std::vector<std::string> answers)
      : answers_(std::move(answers)), thread_([this] { run(); }) {}

 private:
  void run() const {
    for (const std::string& answer : answers_) {
      const int connection = ::accept(socket(), nullptr, nullptr);
      std::string request;
      for (char c; !request.ends_with("\r\n\r\n") && ::read(connection, &c, 1) == 1;) request += c;
      EXPECT_EQ(::write(connection, answer.data(), answer.size()), std::ssize(answer));
      ::close(connection);
    }
  }

  const std::vector<std::string> answers_;
  std::jthread thread_;
};

class SilentObject final : public HttpObject {
 public:
  explicit SilentObject(std::string url) : url_(std::move(url)) {}
  const std::string& path() const override { return url_; }
  const ObjectVersion& version() const override { return version_; }
  HttpRequest request(bool fresh) const override {
    if (fresh && n_failing-- > 0)
      throw Error(ErrorKind::kIo, "no new credentials are to be had just now");
    HttpRequest request;
    request.url = url_;
    return request;
  }
  mutable int n_failing = 0;  // of the requests for new credentials

 private:
  const std::string url_;
  const ObjectVersion version_{.size = 1 << 20, .etag = "\"a\""};
};

// What work throws in a scope that is asked to stop once it waits.
template <typename Work>
std::optional<ErrorKind> thrown_when_stopped(Work work) {
  std::stop_source stop;
  auto ended = std::async(std::launch::async, [&]() -> std::optional<ErrorKind> {
    const exec::StopScope scope(stop.get_token());
    try {
      work();
    } catch (const Error& error) {
      return error.kind();
    }
    return std::nullopt;
  });
  EXPECT_EQ(ended.wait_for(50ms), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(ended.wait_for(10s), std::future_status::ready);
  return ended.get();
}

std::shared_ptr<const io::ByteSource> source_of(const SilentServer& server) {
  return make_http_source(std::make_shared<SilentObject>(server.url()), "http");
}

TEST(SilentServer, IsNotWaitedForByOneWhoIsStopped) {
  const SilentServer server;
  HttpRequest request;
  request.url = server.url();
  EXPECT_EQ(thrown_when_stopped([&] { ask(request); }), ErrorKind::kCancelled);
  EXPECT_EQ(thrown_when_stopped([&] { ask_until_answered(request); }), ErrorKind::kCancelled);
  std::vector<std::byte> bytes(100'000);
  EXPECT_EQ(thrown_when_stopped([&] { source_of(server)->read(0, bytes); }), ErrorKind::kCancelled);
}

// Bytes that did not come are never taken for those that did.
TEST(AnsweringServer, WhatItRefusedIsReadByWhoWaitsNext) {
  const std::string close = "Connection: close\r\n";
  const std::string refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n" + close;
  const std::string range =
      "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nETag: \"a\"\r\n"
      "Content-Range: bytes 8-11/1048576\r\n" +
      close;
  const AnsweringServer server({refused + "\r\n", range + "\r\nabcd"});
  const auto object = std::make_shared<SilentObject>(server.url());
  object->n_failing = 2;
  std::vector<std::byte> bytes(4, std::byte{0});
  const io::ReadRequest request{8, bytes};
  const auto pending = begin_ranges(object, {&request, 1});
  EXPECT_THROW(pending->wait(), Error);
  EXPECT_THROW(pending->wait(), Error);
  pending->wait();
  EXPECT_EQ(std::memcmp(bytes.data(), "abcd", 4), 0);
}

TEST(SilentServer, IsAskedNoMoreByOneWhoIsStopped) {
  const SilentServer server;
  HttpRequest request;
  request.url = server.url();
  std::stop_source stop;
  stop.request_stop();
  const exec::StopScope scope(stop.get_token());
  const std::int64_t before = fetch_counts().requests;
  std::vector<std::byte> bytes(100'000);
  EXPECT_THROW(ask(request), Error);
  EXPECT_THROW(source_of(server)->read(0, bytes), Error);
  EXPECT_EQ(fetch_counts().requests, before);
}

// Answers once it is let.
class GatedSource final : public io::ByteSource {
 public:
  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return 10'000; }
  std::string_view backend_name() const override { return "gated"; }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    const io::ReadRequest request{offset, out};
    begin_read_many({&request, 1})->wait();
  }
  std::unique_ptr<io::PendingReads> begin_read_many(
      std::span<const io::ReadRequest> requests) const override {
    ++n_begun_;
    return std::make_unique<Reads>(*this, requests);
  }
  void open_gate() {
    const std::scoped_lock lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  int n_begun() const { return n_begun_; }

 private:
  struct Reads final : io::PendingReads {
    Reads(const GatedSource& from, std::span<const io::ReadRequest> asked)
        : source(from), requests(asked.begin(), asked.end()) {}
    void wait() override {
      std::unique_lock lock(source.mutex_);
      exec::wait_unless_stopped(source.opened_, lock, [this] { return source.is_open_; });
      for (const io::ReadRequest& request : requests) std::ranges::fill(request.out, std::byte{7});
    }
    const GatedSource& source;
    const std::vector<io::ReadRequest> requests;
  };

  const std::string path_ = "s3://b/a";
  mutable std::atomic<int> n_begun_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable_any opened_;
  bool is_open_ = false;
};

std::unique_ptr<io::ByteSource> blocks_of(std::shared_ptr<const GatedSource> remote,
                                          const testing::TempDir& dir) {
  auto file = BlockFile::open_or_make(io::Directory(dir.path()), "blocks-0123456789abcdef-a",
                                      remote->path(), remote->size());
  return make_block_source(make_block_cache(std::move(remote), std::move(file), dir.path(), -1), 2);
}

// Reads of one block that two have begun.
class TwoReaders : public ::testing::Test {
 protected:
  void expect_others_bytes() const {
    EXPECT_EQ(others_bytes_, std::vector<std::byte>(100, std::byte{7}));
  }

  const testing::TempDir dir_;
  const std::shared_ptr<GatedSource> remote_ = std::make_shared<GatedSource>();
  const std::unique_ptr<io::ByteSource> source_ = blocks_of(remote_, dir_);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(100), others_bytes_ = bytes_;
  const io::ReadRequest request_{0, bytes_}, others_request_{50, others_bytes_};
  const std::unique_ptr<io::PendingReads> own_ = source_->begin_read_many({&request_, 1});
  const std::unique_ptr<io::PendingReads> others_ = source_->begin_read_many({&others_request_, 1});
};

TEST_F(TwoReaders, WhatOneGaveUpComesToTheOther) {
  EXPECT_EQ(thrown_when_stopped([&] { own_->wait(); }), ErrorKind::kCancelled);
  remote_->open_gate();
  others_->wait();
  expect_others_bytes();
  EXPECT_EQ(remote_->n_begun(), 1);
}

TEST_F(TwoReaders, AWaitForWhatTheOtherReadsEnds) {
  auto other = std::async(std::launch::async, [&] { others_->wait(); });
  EXPECT_EQ(other.wait_for(50ms), std::future_status::timeout);
  EXPECT_EQ(thrown_when_stopped([&] { own_->wait(); }), ErrorKind::kCancelled);
  remote_->open_gate();
  other.get();
  expect_others_bytes();
}

// One asks for a token, and others wait for it.
TEST(SilentServer, ATokenThatIsNotGivenIsNotWaitedForByOneWhoIsStopped) {
  std::promise<AccessToken> given;
  auto first = std::async(std::launch::async, [&] {
    return kept_token("silent", false, [&] { return given.get_future().get(); });
  });
  std::this_thread::sleep_for(20ms);
  const auto not_asked = []() -> AccessToken {
    throw Error(ErrorKind::kInternal, "the other one asks");
  };
  EXPECT_EQ(thrown_when_stopped([&] { kept_token("silent", false, not_asked); }),
            ErrorKind::kCancelled);
  given.set_value({"a token", Clock::now() + 1h});
  EXPECT_EQ(first.get(), "a token");
  EXPECT_EQ(kept_token("silent", false, not_asked), "a token");
}

TEST(SilentServer, ATokenThatOneCouldNotGetIsAskedForAgain) {
  const auto failing = []() -> AccessToken { throw Error(ErrorKind::kIo, "none"); };
  EXPECT_THROW(kept_token("failing", false, failing), Error);
  const auto giving = [] { return AccessToken{"second", Clock::now() + 1h}; };
  EXPECT_EQ(kept_token("failing", false, giving), "second");
}

}  // namespace
}  // namespace cellfeed::cloud
