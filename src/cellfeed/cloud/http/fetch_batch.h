// FetchBatch: the ranges of one call, and what became of them. internal to range_fetcher.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/http/range_fetcher.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {

struct Piece {
  std::int64_t offset = 0;
  std::span<std::byte> out;
};

// Its lock is not held while anything else is called.
class FetchBatch {
 public:
  FetchBatch(std::shared_ptr<const HttpObject> object, HttpRequest address, std::size_t n_pieces)
      : object_(std::move(object)), address_(std::move(address)), n_left_(n_pieces) {}

  const HttpObject& object() const { return *object_; }
  const HttpRequest& address() const { return address_; }
  std::chrono::milliseconds deadline() const { return deadline_; }

  void add_done() { end_piece(nullptr, std::nullopt); }
  void add_failure(ErrorKind kind, std::string reason) {
    end_piece(nullptr, Failure{kind, std::move(reason)});
  }
  void add_old_credentials(const Piece& piece) { end_piece(&piece, std::nullopt); }

  // Returns the pieces that were refused for old credentials, until they are begun again. May be
  // called again, whatever it threw.
  std::vector<Piece> wait() {
    std::unique_lock lock(mutex_);
    exec::wait_unless_stopped(ended_, lock, [this] { return n_left_ == 0; });
    if (failure_) throw Error(failure_->kind, failure_->reason, object_->path());
    return refused_;
  }
  bool is_ended() const {
    const std::scoped_lock lock(mutex_);
    return n_left_ == 0;
  }
  // REQUIRES: none of the pieces is under way.
  void begin_again(HttpRequest address, std::size_t n_pieces) {
    const std::scoped_lock lock(mutex_);
    address_ = std::move(address);
    refused_.clear();
    n_left_ = n_pieces;
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    n_left_ = 0;
    ended_.notify_all();
  }

 private:
  struct Failure {
    ErrorKind kind = ErrorKind::kIo;
    std::string reason;
  };

  void end_piece(const Piece* refused, std::optional<Failure> failure) {
    const std::scoped_lock lock(mutex_);
    if (refused != nullptr) refused_.push_back(*refused);
    if (failure && !failure_) failure_ = std::move(failure);
    if (n_left_ > 0 && --n_left_ == 0) ended_.notify_all();
  }

  const std::shared_ptr<const HttpObject> object_;
  HttpRequest address_;
  const std::chrono::milliseconds deadline_ = fetch_deadline();
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any ended_;
  std::size_t n_left_;
  std::vector<Piece> refused_;
  std::optional<Failure> failure_;
};

}  // namespace cellfeed::cloud
