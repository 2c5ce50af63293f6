// SlowRowStore: a double that answers correctly but late. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace cellfeed::testing {

struct SlowStoreOptions {
  std::uint64_t seed = 0;
  std::chrono::microseconds max_fetch_latency{500};  // each fetch waits between 0 and this
  std::chrono::microseconds max_decode_latency{100};
};

// Passes everything on to another store.
class ForwardingRowStore : public format::RowStore {
 public:
  explicit ForwardingRowStore(std::shared_ptr<const format::RowStore> store)
      : store_(std::move(store)) {}
  const format::StoreInfo& info() const override { return store_->info(); }
  const matrix::GeneAxis& genes() const override { return store_->genes(); }
  std::unique_ptr<format::FetchedRows> fetch(std::span<const std::int64_t> rows,
                                             const format::ParallelFor& parallel) const override {
    return store_->fetch(rows, parallel);
  }
  std::int64_t plan_fetch_bytes(std::span<const std::int64_t> rows) const override {
    return store_->plan_fetch_bytes(rows);
  }
  void release_pages() const override { store_->release_pages(); }
  void set_cache_bytes(std::int64_t bytes) const override { store_->set_cache_bytes(bytes); }
  std::vector<std::string> obs_names() const override { return store_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return store_->obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return store_->read_obs(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return store_->read_var(); }
  std::uint64_t fingerprint() const override { return store_->fingerprint(); }

 protected:
  std::shared_ptr<const format::RowStore> store_;
};

class ForwardingRows : public format::FetchedRows {
 public:
  explicit ForwardingRows(std::unique_ptr<format::FetchedRows> rows) : rows_(std::move(rows)) {}
  std::int64_t n_rows() const override { return rows_->n_rows(); }
  void wait() const override { rows_->wait(); }
  void sizes(std::span<std::int64_t> nnz) const override { rows_->sizes(nnz); }
  void decode(std::int64_t begin, std::int64_t end, const format::CsrSink& sink) const override {
    rows_->decode(begin, end, sink);
  }
  std::int64_t bytes_read() const override { return rows_->bytes_read(); }
  std::int64_t bytes_used() const override { return rows_->bytes_used(); }
  std::int64_t bytes_held() const override { return rows_->bytes_held(); }

 protected:
  std::unique_ptr<format::FetchedRows> rows_;
};

class SlowRowStore final : public ForwardingRowStore {
 public:
  explicit SlowRowStore(std::shared_ptr<const format::RowStore> store,
                        const SlowStoreOptions& options = {})
      : ForwardingRowStore(std::move(store)), options_(options) {}

  std::unique_ptr<format::FetchedRows> fetch(std::span<const std::int64_t> rows,
                                             const format::ParallelFor& parallel) const override {
    std::this_thread::sleep_for(next_latency(options_.max_fetch_latency));
    return std::make_unique<SlowRows>(store_->fetch(rows, parallel), *this);
  }
  // Fetches and decodes so far.
  std::int64_t calls() const { return n_calls_.load(); }

 private:
  class SlowRows final : public ForwardingRows {
   public:
    SlowRows(std::unique_ptr<format::FetchedRows> rows, const SlowRowStore& store)
        : ForwardingRows(std::move(rows)), store_(store) {}
    void decode(std::int64_t begin, std::int64_t end, const format::CsrSink& sink) const override {
      std::this_thread::sleep_for(store_.next_latency(store_.options_.max_decode_latency));
      rows_->decode(begin, end, sink);
    }

   private:
    const SlowRowStore& store_;
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
