// FaultyRowStore: a double that fails where the test says. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/slow_row_store.h"

namespace cellfeed::testing {

struct StoreFaults {
  // The nth fetch (from 0) and all later ones throw kIo when they begin, are waited for, or run
  // a task, which each then has.
  std::optional<std::int64_t> fail_at_fetch = std::nullopt;
  std::optional<std::int64_t> fail_at_wait = std::nullopt;
  std::optional<std::int64_t> fail_at_task = std::nullopt;
  std::optional<std::int64_t> bad_row = std::nullopt;  // decoding this row throws kCorruptData
  // This row decodes to one entry less than sized, as with duplicates.
  std::optional<std::int64_t> short_row = std::nullopt;
};

class FaultyRowStore final : public format::ForwardingStore {
 public:
  FaultyRowStore(std::shared_ptr<const format::RowStore> store, const StoreFaults& faults)
      : ForwardingStore(std::move(store)), faults_(faults) {}

  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    const std::int64_t number = n_fetches_++;
    fail_from(faults_.fail_at_fetch, number, "fetch");
    return std::make_unique<FaultyRows>(store_->begin(rows, context), *this, number,
                                        std::vector<std::int64_t>(rows.begin(), rows.end()));
  }

 private:
  class FaultyRows final : public ForwardingRows {
   public:
    FaultyRows(std::unique_ptr<format::FetchedRows> fetched, const FaultyRowStore& store,
               std::int64_t number, std::vector<std::int64_t> rows)
        : ForwardingRows(std::move(fetched)),
          store_(store),
          number_(number),
          row_numbers_(std::move(rows)) {}

    void wait() override {
      store_.fail_from(store_.faults_.fail_at_wait, number_, "wait");
      rows_->wait();
    }
    std::int64_t n_tasks() const override {
      return rows_->n_tasks() + (store_.faults_.fail_at_task ? 1 : 0);
    }
    void run(std::int64_t task) override {
      if (task < rows_->n_tasks()) return rows_->run(task);
      store_.fail_from(store_.faults_.fail_at_task, number_, "task");
    }

    void decode(std::int64_t begin, std::int64_t end,
                const format::CsrTarget& target) const override {
      const auto& faults = store_.faults_;
      fail_at_bad_row(begin, end);
      rows_->decode(begin, end, target);
      for (std::int64_t i = begin; i < end; ++i)
        if (faults.short_row && row_numbers_[i] == *faults.short_row)
          target.counts[i] = std::max(0, target.counts[i] - 1);
    }

    void decode_dense(std::int64_t begin, std::int64_t end,
                      const format::DenseTarget& target) const override {
      fail_at_bad_row(begin, end);
      rows_->decode_dense(begin, end, target);
    }

   private:
    void fail_at_bad_row(std::int64_t begin, std::int64_t end) const {
      const auto& bad_row = store_.faults_.bad_row;
      for (std::int64_t i = begin; i < end; ++i)
        if (bad_row && row_numbers_[i] == *bad_row)
          throw_error(ErrorKind::kCorruptData, store_.info().path, "planted fault in row: {}",
                      row_numbers_[i]);
    }

    const FaultyRowStore& store_;
    const std::int64_t number_;
    std::vector<std::int64_t> row_numbers_;
  };

  void fail_from(std::optional<std::int64_t> first, std::int64_t number, const char* step) const {
    if (first && number >= *first)
      throw_error(ErrorKind::kIo, info().path, "planted fault at {}: {}", step, number);
  }

  StoreFaults faults_;
  mutable std::atomic<std::int64_t> n_fetches_{0};
};

}  // namespace cellfeed::testing
