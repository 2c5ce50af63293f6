// The conformance suite itself: a store that breaks the contract in one way fails the check for it.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/faulty_row_store.h"
#include "cellfeed/testing/row_store_conformance.h"

namespace cellfeed::format {
namespace {

namespace checks = testing::conformance;
using format::ForwardingStore;
using testing::ForwardingRows;
using Check = void (*)(const testing::RowStoreFactory&);

std::unique_ptr<RowStore> memory_store(const matrix::CsrBlock& block, DType stored) {
  return memory::make_memory_store(memory::make_stored_csr(block, stored));
}

// Failures of the check, which are not failures of this test.
template <typename Store>
int failures_of(Check check) {
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check([](const matrix::CsrBlock& block, DType stored) -> std::unique_ptr<RowStore> {
      return std::make_unique<Store>(memory_store(block, stored));
    });
  }
  int n = 0;
  for (int i = 0; i < results.size(); ++i) n += results.GetTestPartResult(i).failed();
  return n;
}

// A store whose rows are of type Rows.
template <typename Rows>
class StoreOf final : public format::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    return std::make_unique<Rows>(store_->begin(rows, context));
  }
};

class WritesPastItsRow final : public ForwardingRows {
 public:
  using ForwardingRows::ForwardingRows;
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    rows_->decode(begin, end, target);
    for (std::int64_t i = begin; i < end; ++i)
      target.indices[target.place[i] + target.counts[i]] = 0;
  }
};

class WritesAValuePastItsRow final : public ForwardingRows {
 public:
  using ForwardingRows::ForwardingRows;
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    rows_->decode(begin, end, target);
    if (target.dtype != DType::kF64) return;
    for (std::int64_t i = begin; i < end; ++i)
      static_cast<double*>(target.values)[target.place[i] + target.counts[i]] = 0;
  }
};

class SizesOneTooLarge final : public ForwardingRows {
 public:
  using ForwardingRows::ForwardingRows;
  void sizes(std::span<std::int64_t> nnz) const override {
    rows_->sizes(nnz);
    for (auto& size : nnz) ++size;
  }
};

class LeavesOutTheLastRow final : public ForwardingRows {
 public:
  using ForwardingRows::ForwardingRows;
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    rows_->decode(begin, std::max(begin, end - (end == n_rows())), target);
  }
};

class HoldsMoreThanPlanned final : public ForwardingRows {
 public:
  using ForwardingRows::ForwardingRows;
  std::int64_t bytes_held() const override { return 1; }
};

// Rows that say they were read once their only task has run.
class RunsATask : public ForwardingRows {
 public:
  using ForwardingRows::ForwardingRows;
  std::int64_t n_tasks() const override { return n_rows() > 0 ? 2 : 0; }
  void run(std::int64_t task) override { has_run_[task] = true; }

 protected:
  bool has_run_[2] = {};
};

class WantsTasksInOrder final : public RunsATask {
 public:
  using RunsATask::RunsATask;
  void run(std::int64_t task) override {
    if (task == 1 && !has_run_[0]) throw Error(ErrorKind::kInternal, "task 0 is first");
    RunsATask::run(task);
  }
};

// Keeps what a fetch that was let go left behind.
class RemembersHalfAFetch final : public RunsATask {
 public:
  explicit RemembersHalfAFetch(std::unique_ptr<FetchedRows> rows) : RunsATask(std::move(rows)) {}
  ~RemembersHalfAFetch() override { is_half_done_ = has_run_[0] && !has_run_[1]; }
  void sizes(std::span<std::int64_t> nnz) const override {
    rows_->sizes(nnz);
    if (is_half_done_)
      for (auto& size : nnz) ++size;
  }

 private:
  static inline bool is_half_done_ = false;
};

class ForgetsWhyItStopped final : public format::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    if (context.stop.stop_requested()) throw Error(ErrorKind::kInternal, "stopped");
    return store_->begin(rows, context);
  }
};

class HasOneFingerprint final : public format::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::uint64_t fingerprint() const override { return 7; }
};

TEST(RowStoreConformance, ASoundStorePasses) {
  for (const Check check :
       {checks::describes_itself, checks::reads_every_row_in_order, checks::stores_every_dtype,
        checks::takes_steps_in_any_order, checks::may_be_dropped_after_any_step,
        checks::ends_or_goes_on_when_stopped}) {
    EXPECT_EQ(failures_of<ForwardingStore>(check), 0);
    EXPECT_EQ(failures_of<StoreOf<RunsATask>>(check), 0);
  }
}

TEST(RowStoreConformance, ABrokenStoreFailsTheCheckForIt) {
  const Check reads = checks::reads_every_row_in_order;
  EXPECT_GT(failures_of<StoreOf<WritesPastItsRow>>(reads), 0);
  EXPECT_GT(failures_of<StoreOf<WritesAValuePastItsRow>>(reads), 0);
  EXPECT_GT(failures_of<StoreOf<SizesOneTooLarge>>(reads), 0);
  EXPECT_GT(failures_of<StoreOf<LeavesOutTheLastRow>>(reads), 0);
  EXPECT_GT(failures_of<StoreOf<HoldsMoreThanPlanned>>(reads), 0);
  EXPECT_THROW(failures_of<StoreOf<WantsTasksInOrder>>(checks::takes_steps_in_any_order), Error);
  EXPECT_GT(failures_of<StoreOf<RemembersHalfAFetch>>(checks::may_be_dropped_after_any_step), 0);
  EXPECT_GT(failures_of<ForgetsWhyItStopped>(checks::ends_or_goes_on_when_stopped), 0);
  EXPECT_GT(failures_of<HasOneFingerprint>(checks::describes_itself), 0);
}

// Counts the calls that have a default, which a double forgets first.
class CountingStore final : public format::ForwardingStore {
 public:
  CountingStore(std::unique_ptr<RowStore> store, int* calls)
      : ForwardingStore(std::move(store)), calls_(calls) {}
  void release_pages() const override { ++*calls_; }
  void set_cache_bytes(std::int64_t) const override { ++*calls_; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    class Rows final : public ForwardingRows {
     public:
      Rows(std::unique_ptr<FetchedRows> rows, int* calls)
          : ForwardingRows(std::move(rows)), calls_(calls) {}
      void wait() override { ++*calls_; }
      std::int64_t n_tasks() const override { return 1; }
      void run(std::int64_t) override { ++*calls_; }
      void prefetch(std::int64_t, std::int64_t) const override { ++*calls_; }
      std::int64_t bytes_held() const override { return ++*calls_; }

     private:
      int* calls_;
    };
    return std::make_unique<Rows>(store_->begin(rows, context), calls_);
  }

 private:
  int* calls_;
};

TEST(Doubles, PassOnWhatHasADefault) {
  int calls = 0;
  const auto counting =
      std::make_shared<CountingStore>(memory_store(testing::random_csr(), DType::kF32), &calls);
  const testing::SlowRowStore slow(counting);
  const testing::FaultyRowStore faulty(counting, {});
  const std::vector<std::int64_t> rows{1};
  for (const RowStore* store :
       {static_cast<const RowStore*>(&slow), static_cast<const RowStore*>(&faulty)}) {
    calls = 0;
    store->release_pages();
    store->set_cache_bytes(1);
    const auto fetched = fetch_rows(*store, rows);  // waits, and runs the task
    fetched->prefetch(0, 1);
    fetched->bytes_held();
    EXPECT_EQ(calls, 6);
  }
}

}  // namespace
}  // namespace cellfeed::format
