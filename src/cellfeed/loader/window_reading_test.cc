// How windows are read ahead: with a store whose reads are under way until the test lets them end.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/slow_row_store.h"

namespace cellfeed::loader {
namespace {

// Bytes that a row says it takes, so that budgets are some windows.
constexpr std::int64_t kLargeRow = 1'000'000;

// What the store's reads share with the test.
struct Reads {
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  int live = 0;
  int most_unfinished = 0;
  int unfinished = 0;
  int may_end = 1 << 30;       // reads with a smaller number
  std::set<int> failing{};     // numbers of reads
  std::int64_t row_bytes = 0;  // of memory, as planned and as held
  std::int64_t row_bytes_used = 100;
  std::int64_t inflated_bytes = 0;
  std::int64_t read_ahead_bytes = io::ReadCosts{}.in_flight_bytes;

  bool wait_until_begun(int n) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return begun >= n; });
  }
  void let_end(int n) {
    const std::lock_guard lock(mutex);
    may_end = n;
    changed.notify_all();
  }
};

class PendingRows final : public testing::ForwardingRows {
 public:
  PendingRows(std::unique_ptr<format::FetchedRows> rows, std::shared_ptr<Reads> reads)
      : ForwardingRows(std::move(rows)), shared_(std::move(reads)), reads_(*shared_) {
    const std::lock_guard lock(reads_.mutex);
    number_ = reads_.begun++;
    ++reads_.live;
    reads_.most_unfinished = std::max(reads_.most_unfinished, ++reads_.unfinished);
    reads_.changed.notify_all();
  }
  ~PendingRows() override {
    const std::lock_guard lock(reads_.mutex);
    if (!is_finished_) --reads_.unfinished;
    --reads_.live;
  }
  void wait() override {
    std::unique_lock lock(reads_.mutex);
    reads_.changed.wait_for(lock, std::chrono::seconds(60),
                            [this] { return number_ < reads_.may_end; });
    if (!is_finished_) --reads_.unfinished;
    is_finished_ = true;
    if (reads_.failing.contains(number_)) throw Error(ErrorKind::kIo, "planted fault", "pending");
  }
  std::int64_t bytes_used() const override { return n_rows() * reads_.row_bytes_used; }
  std::int64_t bytes_held() const override { return n_rows() * reads_.row_bytes; }

 private:
  const std::shared_ptr<Reads> shared_;  // the pool's threads may hold rows longer than the test
  Reads& reads_;
  int number_ = 0;
  mutable bool is_finished_ = false;
};

class PendingStore final : public format::ForwardingStore {
 public:
  PendingStore(std::shared_ptr<const format::RowStore> store, std::shared_ptr<Reads> reads)
      : ForwardingStore(std::move(store)), reads_(std::move(reads)), info_(store_->info()) {
    info_.inflated_bytes = reads_->inflated_bytes;
  }
  const format::StoreInfo& info() const override { return info_; }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    return std::make_unique<PendingRows>(store_->begin(rows, context), reads_);
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return {.bytes_held = std::ssize(rows) * reads_->row_bytes,
            .bytes_inflated = reads_->inflated_bytes > 0 ? std::ssize(rows) : 0,
            .read_ahead_bytes = reads_->read_ahead_bytes};
  }

 private:
  std::shared_ptr<Reads> reads_;
  format::StoreInfo info_;
};

class WindowReading : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 640;
  static constexpr std::int64_t kBatch = 16;

  static std::unique_ptr<format::RowStore> memory_store() {
    return format::memory::make_memory_store(format::memory::make_stored_csr(
        testing::random_csr({.n_rows = kRows, .n_cols = 30, .density = 0.3})));
  }
  // Of the rows whose reads are under way; with others, in random order, of as many plain stores.
  BatchIterator& start(std::int64_t memory_budget = std::int64_t{1} << 30,
                       std::int64_t n_plain = 0) {
    std::vector<std::unique_ptr<format::RowStore>> stores;
    stores.push_back(std::make_unique<PendingStore>(memory_store(), shared_));
    for (std::int64_t i = 0; i < n_plain; ++i) stores.push_back(memory_store());
    const std::int64_t n_rows = (n_plain + 1) * kRows;
    std::shared_ptr<const sampling::Strategy> order = std::make_shared<sampling::Streaming>(n_rows);
    if (n_plain > 0) order = std::make_shared<sampling::BlockShuffling>(n_rows, 1);
    const auto cells = std::make_shared<const collection::Collection>(
        std::move(stores), collection::CollectionOptions{});
    core_ = make_loader_core(cells, {.memory_budget = memory_budget, .threads = 2});
    const sampling::Plan plan(order, {.batch_size = kBatch, .fetch_factor = n_plain > 0 ? 16 : 1},
                              0, 0);
    iterator_ = std::make_unique<BatchIterator>(core_, plan);
    return *iterator_;
  }

  // Batches until the end; the error, if there is one, is thrown.
  std::int64_t drain(std::int64_t* n_batches) {
    std::int64_t rows = 0;
    for (*n_batches = 0;;) {
      std::shared_ptr<LoadedBatch> batch;
      const auto status = iterator_->next(60'000, &batch);
      if (status != BatchIterator::Status::kReady) return rows;
      ++*n_batches;
      rows += batch->batch().n_rows();
    }
  }
  // Starts the threads. Rows of a batch that is there already.
  std::int64_t poll() {
    std::shared_ptr<LoadedBatch> batch;
    const auto status = iterator_->next(1, &batch);
    return status == BatchIterator::Status::kReady ? batch->batch().n_rows() : 0;
  }

  // Starts the threads: so many windows are begun before the reads that wait may end, and then all
  // rows come.
  void expect_begun_ahead(int n_windows, std::int64_t n_rows = kRows) {
    const std::int64_t rows = poll();
    EXPECT_TRUE(reads_.wait_until_begun(n_windows));
    reads_.let_end(1 << 30);
    std::int64_t n = 0;
    EXPECT_EQ(rows + drain(&n), n_rows);
  }

  // The pool's threads may hold the last window a moment longer than the iterator lives.
  bool are_all_taken_back() {
    for (int i = 0; i < 12'000; ++i) {
      {
        const std::lock_guard lock(reads_.mutex);
        if (reads_.live == 0) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  const std::shared_ptr<Reads> shared_ = std::make_shared<Reads>();
  Reads& reads_ = *shared_;
  std::shared_ptr<const LoaderCore> core_;
  std::unique_ptr<BatchIterator> iterator_;
};

TEST_F(WindowReading, SmallWindowsAreBegunManyAhead) {
  reads_.may_end = 1;
  start();
  expect_begun_ahead(20);
}

TEST_F(WindowReading, TheFirstWindowIsReadAlone) {
  reads_.may_end = 0;
  start();
  poll();
  EXPECT_TRUE(reads_.wait_until_begun(1));
  EXPECT_FALSE(reads_.begun > 1);
  reads_.let_end(1 << 30);
  std::int64_t n = 0;
  drain(&n);
}

TEST_F(WindowReading, LargeWindowsAreBegunFewAhead) {
  reads_.may_end = 1;
  reads_.row_bytes_used = (20 << 20) / kBatch;
  start();
  expect_begun_ahead(3);
  EXPECT_LE(reads_.most_unfinished, 3);
  EXPECT_GE(reads_.most_unfinished, 2) << "the window that was let end, and two ahead of it";
}

// Of a line that is long and wide: the same windows.
TEST_F(WindowReading, WindowsAreBegunAsFarAheadAsTheirSourceSays) {
  reads_.may_end = 1;
  reads_.row_bytes_used = (20 << 20) / kBatch;
  reads_.read_ahead_bytes = std::int64_t{200} << 20;
  start();
  // 200 MiB, and the one that was let end where it was taken soon enough.
  expect_begun_ahead(10);
  EXPECT_LE(reads_.most_unfinished, 11);
}

TEST_F(WindowReading, NoSourceHasMoreAheadThanTheBudgetAllows) {
  reads_.row_bytes = kLargeRow;
  reads_.row_bytes_used = kLargeRow;
  reads_.read_ahead_bytes = std::int64_t{1} << 40;
  reads_.may_end = 1;
  start(10 * kBatch * kLargeRow);
  expect_begun_ahead(4);
  EXPECT_LE(reads_.most_unfinished, 6);
  EXPECT_LE(core_->counters->peak_bytes.load(), 10 * kBatch * kLargeRow);
}

TEST_F(WindowReading, WindowsAheadLeaveHalfOfTheBudget) {
  reads_.row_bytes = kLargeRow;
  reads_.may_end = 1;
  start(10 * kBatch * kLargeRow);
  expect_begun_ahead(4);
  EXPECT_LE(reads_.most_unfinished, 6);
  EXPECT_LE(core_->counters->peak_bytes.load(), 10 * kBatch * kLargeRow);
}

TEST_F(WindowReading, ABudgetOfLessThanAWindowReadsOneAtATime) {
  reads_.row_bytes = 10 * kLargeRow;
  start(kBatch * 10 * kLargeRow / 2);
  std::int64_t n = 0;
  EXPECT_EQ(drain(&n), kRows);
  EXPECT_EQ(reads_.most_unfinished, 1);
}

// Windows of compressed rows take most of the room, so that the next is begun when the last is
// decoded.
TEST_F(WindowReading, CompressedFilesAreReadOneWindowAhead) {
  reads_.inflated_bytes = std::int64_t{1} << 40;
  reads_.row_bytes = kLargeRow;
  start(6 * kBatch * kLargeRow);
  std::int64_t n = 0;
  EXPECT_EQ(drain(&n), kRows);
  EXPECT_EQ(reads_.most_unfinished, 1);
}

// Nor does one compressed file among others keep their windows from being read ahead.
TEST_F(WindowReading, ACompressedFileAmongOthersIsReadAheadWithThem) {
  reads_.inflated_bytes = std::int64_t{1} << 40;
  reads_.may_end = 1;
  start(std::int64_t{1} << 30, 9);
  expect_begun_ahead(4, 10 * kRows);
}

TEST_F(WindowReading, AFailedReadComesAfterTheBatchesBeforeIt) {
  reads_.failing = {5};
  start();
  std::int64_t n = 0;
  EXPECT_THROW(drain(&n), Error);
  EXPECT_EQ(n, 5);
  iterator_.reset();
  EXPECT_TRUE(are_all_taken_back());
}

TEST_F(WindowReading, AbandonedReadsAreAllTakenBack) {
  for (int round = 0; round < 10; ++round) {
    start();
    for (int i = 0; i < round; ++i) poll();
    iterator_.reset();
    EXPECT_TRUE(are_all_taken_back());
  }
}

TEST_F(WindowReading, AllStoresOfAWindowAreReadTogether) {
  constexpr std::int64_t kStores = 50, kRowsOfEach = 20;
  reads_.may_end = 0;
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (std::int64_t s = 0; s < kStores; ++s)
    stores.push_back(std::make_unique<PendingStore>(
        format::memory::make_memory_store(format::memory::make_stored_csr(
            testing::random_csr({.n_rows = kRowsOfEach, .n_cols = 30, .density = 0.3}))),
        shared_));
  core_ = make_loader_core(std::make_shared<const collection::Collection>(
                               std::move(stores), collection::CollectionOptions{}),
                           {.threads = 2});
  constexpr std::int64_t kAll = kStores * kRowsOfEach;
  iterator_ = std::make_unique<BatchIterator>(
      core_, sampling::Plan(std::make_shared<sampling::BlockShuffling>(kAll, 1),
                            {.batch_size = kAll, .fetch_factor = 1}, 0, 0));
  EXPECT_EQ(poll(), 0);
  EXPECT_TRUE(reads_.wait_until_begun(kStores)) << "none has ended by then";
  EXPECT_EQ(reads_.most_unfinished, kStores);
  reads_.let_end(1 << 30);
  std::int64_t n = 0;
  EXPECT_EQ(drain(&n), kAll);
}

TEST(SlowStores, AreNotWaitedForOnceNobodyWantsTheirRows) {
  const auto latency = std::chrono::seconds(20);
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(std::make_unique<testing::SlowRowStore>(
      format::memory::make_memory_store(format::memory::make_stored_csr(testing::random_csr())),
      testing::SlowStoreOptions{.min_fetch_latency = latency, .max_fetch_latency = latency}));
  const auto core = make_loader_core(std::make_shared<const collection::Collection>(
                                         std::move(stores), collection::CollectionOptions{}),
                                     {.threads = 2});
  const auto start = std::chrono::steady_clock::now();
  {
    BatchIterator iterator(core, {std::make_shared<sampling::Streaming>(100), {}, 0, 0});
    std::shared_ptr<LoadedBatch> batch;
    EXPECT_EQ(iterator.next(20, &batch), BatchIterator::Status::kWaiting);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace cellfeed::loader
