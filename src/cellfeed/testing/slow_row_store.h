// SlowRowStore: a double that answers correctly but late, or not at all once it is stopped.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/forwarding_store.h"

namespace cellfeed::testing {

struct SlowStoreOptions {
  std::uint64_t seed = 0;
  // The bytes of each fetch are there between these after it began.
  std::chrono::microseconds min_fetch_latency{0};
  std::chrono::microseconds max_fetch_latency{500};
  std::chrono::microseconds max_decode_latency{100};
};

// Passes everything on to other rows.
class ForwardingRows : public format::FetchedRows {
 public:
  explicit ForwardingRows(std::unique_ptr<format::FetchedRows> rows) : rows_(std::move(rows)) {}
  std::int64_t n_rows() const override { return rows_->n_rows(); }
  void wait() override { rows_->wait(); }
  std::int64_t n_tasks() const override { return rows_->n_tasks(); }
  void run(std::int64_t task) override { rows_->run(task); }
  void prefetch(std::int64_t begin, std::int64_t end) const override {
    rows_->prefetch(begin, end);
  }
  void sizes(std::span<std::int64_t> nnz) const override { rows_->sizes(nnz); }
  void decode(std::int64_t begin, std::int64_t end,
              const format::CsrTarget& target) const override {
    rows_->decode(begin, end, target);
  }
  bool is_dense() const override { return rows_->is_dense(); }
  void decode_dense(std::int64_t begin, std::int64_t end,
                    const format::DenseTarget& target) const override {
    rows_->decode_dense(begin, end, target);
  }
  std::int64_t bytes_read() const override { return rows_->bytes_read(); }
  std::int64_t bytes_used() const override { return rows_->bytes_used(); }
  std::int64_t bytes_held() const override { return rows_->bytes_held(); }

 protected:
  std::unique_ptr<format::FetchedRows> rows_;
};

class SlowRowStore final : public format::ForwardingStore {
 public:
  explicit SlowRowStore(std::shared_ptr<const format::RowStore> store,
                        const SlowStoreOptions& options = {})
      : ForwardingStore(std::move(store)), options_(options) {}

  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    const auto latency = options_.min_fetch_latency +
                         next_latency(options_.max_fetch_latency - options_.min_fetch_latency);
    return std::make_unique<SlowRows>(store_->begin(rows, context), *this, context.stop,
                                      std::chrono::steady_clock::now() + latency);
  }
  // Fetches and decodes so far.
  std::int64_t calls() const { return n_calls_.load(); }

 private:
  class SlowRows final : public ForwardingRows {
   public:
    SlowRows(std::unique_ptr<format::FetchedRows> rows, const SlowRowStore& store,
             std::stop_token stop, std::chrono::steady_clock::time_point ready_at)
        : ForwardingRows(std::move(rows)),
          store_(store),
          stop_(std::move(stop)),
          ready_at_(ready_at) {}
    void wait() override {
      std::mutex mutex;
      std::condition_variable_any stopped;
      std::unique_lock lock(mutex);
      stopped.wait_until(lock, stop_, ready_at_, [] { return false; });
      if (stop_.stop_requested())
        throw_error(ErrorKind::kCancelled, store_.info().path, "reading was stopped");
      rows_->wait();
    }
    void decode(std::int64_t begin, std::int64_t end,
                const format::CsrTarget& target) const override {
      std::this_thread::sleep_for(store_.next_latency(store_.options_.max_decode_latency));
      rows_->decode(begin, end, target);
    }
    void decode_dense(std::int64_t begin, std::int64_t end,
                      const format::DenseTarget& target) const override {
      std::this_thread::sleep_for(store_.next_latency(store_.options_.max_decode_latency));
      rows_->decode_dense(begin, end, target);
    }

   private:
    const SlowRowStore& store_;
    const std::stop_token stop_;
    const std::chrono::steady_clock::time_point ready_at_;
  };

  // SplitMix64 of the call's number: a seed gives the same latencies whatever the threads do.
  std::chrono::microseconds next_latency(std::chrono::microseconds bound) const {
    std::uint64_t z = options_.seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(++n_calls_);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return std::chrono::microseconds((z ^ (z >> 31)) %
                                     (static_cast<std::uint64_t>(bound.count()) + 1));
  }

  SlowStoreOptions options_;
  mutable std::atomic<std::int64_t> n_calls_{0};
};

}  // namespace cellfeed::testing
