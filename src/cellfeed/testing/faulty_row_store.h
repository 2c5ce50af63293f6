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
  std::optional<std::int64_t> fail_at_fetch =
      std::nullopt;  // the nth fetch (from 0) and all later ones throw kIo
  std::optional<std::int64_t> bad_row = std::nullopt;  // decoding this row throws kCorruptData
  std::optional<std::int64_t> short_row =
      std::nullopt;  // this row decodes to one entry less than sized, as with duplicates
};

class FaultyRowStore final : public ForwardingRowStore {
 public:
  FaultyRowStore(std::shared_ptr<const format::RowStore> store, const StoreFaults& faults)
      : ForwardingRowStore(std::move(store)), faults_(faults) {}

  std::unique_ptr<format::FetchedRows> fetch(std::span<const std::int64_t> rows,
                                             const format::ParallelFor& parallel) const override {
    const std::int64_t number = n_fetches_++;
    if (faults_.fail_at_fetch && number >= *faults_.fail_at_fetch)
      throw_error(ErrorKind::kIo, info().path, "planted fault at fetch: {}", number);
    return std::make_unique<FaultyRows>(store_->fetch(rows, parallel), *this,
                                        std::vector<std::int64_t>(rows.begin(), rows.end()));
  }

 private:
  class FaultyRows final : public ForwardingRows {
   public:
    FaultyRows(std::unique_ptr<format::FetchedRows> fetched, const FaultyRowStore& store,
               std::vector<std::int64_t> rows)
        : ForwardingRows(std::move(fetched)), store_(store), row_numbers_(std::move(rows)) {}

    void decode(std::int64_t begin, std::int64_t end, const format::CsrSink& sink) const override {
      const auto& faults = store_.faults_;
      for (std::int64_t i = begin; i < end; ++i)
        if (faults.bad_row && row_numbers_[i] == *faults.bad_row)
          throw_error(ErrorKind::kCorruptData, store_.info().path, "planted fault in row: {}",
                      row_numbers_[i]);
      rows_->decode(begin, end, sink);
      for (std::int64_t i = begin; i < end; ++i)
        if (faults.short_row && row_numbers_[i] == *faults.short_row)
          sink.counts[i] = std::max(0, sink.counts[i] - 1);
    }

   private:
    const FaultyRowStore& store_;
    std::vector<std::int64_t> row_numbers_;
  };

  StoreFaults faults_;
  mutable std::atomic<std::int64_t> n_fetches_{0};
};

}  // namespace cellfeed::testing
