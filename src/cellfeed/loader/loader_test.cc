// The loader against the source rows: every batch, any number of threads, cancelled and failing
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_assembly.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/testing/drain.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/row_entries.h"
#include "cellfeed/testing/slow_row_store.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::loader {
namespace {

using testing::drain;
using ::testing::HasSubstr;
using testing::row_of;

constexpr std::int64_t kSourceRows = 500;
constexpr std::int64_t kSourceGenes = 120;

matrix::CsrBlock source_block() {
  return testing::random_csr({.n_rows = kSourceRows, .n_cols = kSourceGenes, .density = 0.3});
}

// A store that fails at one row, or has a slow task for each.
class TroubledStore final : public format::ForwardingStore {
 public:
  TroubledStore(std::unique_ptr<RowStore> inner, std::int64_t bad_row, int delay_ms,
                std::int64_t fetch_bytes)
      : ForwardingStore(std::move(inner)),
        bad_row_(bad_row),
        delay_ms_(delay_ms),
        fetch_bytes_(fetch_bytes) {}
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    for (const std::int64_t row : rows)
      if (row == bad_row_) throw Error(ErrorKind::kCorruptData, "row is damaged", "troubled");
    return std::make_unique<Rows>(store_->begin(rows, context), delay_ms_);
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return {.bytes_held = fetch_bytes_ * std::ssize(rows)};
  }

 private:
  class Rows final : public testing::ForwardingRows {
   public:
    Rows(std::unique_ptr<format::FetchedRows> rows, int delay_ms)
        : ForwardingRows(std::move(rows)), delay_ms_(delay_ms) {}
    std::int64_t n_tasks() const override { return delay_ms_ > 0 ? n_rows() : 0; }
    void run(std::int64_t) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
    }

   private:
    const int delay_ms_;
  };

  std::int64_t bad_row_;
  int delay_ms_;
  std::int64_t fetch_bytes_;
};

std::unique_ptr<format::RowStore> memory_store() {
  return format::memory::make_memory_store(format::memory::make_stored_csr(source_block()));
}

std::shared_ptr<const collection::Collection> two_stores(std::unique_ptr<format::RowStore> store) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(std::move(store));
  stores.push_back(memory_store());
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{});
}

sampling::Plan shuffled_plan(std::int64_t batch_size, std::int64_t block_size = 1,
                             std::uint64_t epoch = 0) {
  return sampling::Plan(std::make_shared<sampling::BlockShuffling>(2 * kSourceRows, block_size),
                        {.batch_size = batch_size, .fetch_factor = 4}, 11, epoch);
}

TEST(Loader, EveryRowArrivesOnceAndUnchanged) {
  const auto source = source_block();
  for (const int threads : {1, 3}) {
    const auto core = make_loader_core(two_stores(memory_store()), {.threads = threads});
    BatchIterator iterator(core, shuffled_plan(64));
    std::vector<int> seen(2 * kSourceRows);
    for (const auto& loaded : drain(iterator)) {
      const auto& block = std::get<matrix::CsrBlock>(loaded->batch().x);
      for (std::int64_t i = 0; i < block.n_rows; ++i) {
        const std::int64_t row = loaded->batch().rows[i];
        ++seen[row];
        EXPECT_EQ(row_of(block, i), row_of(source, row % kSourceRows));
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

TEST(Loader, DenseEqualsSparse) {
  const auto cells = two_stores(memory_store());
  const auto sparse = make_loader_core(cells, {.threads = 2});
  const auto dense = make_loader_core(cells, {.output = Output::kDense, .threads = 2});
  BatchIterator a(sparse, shuffled_plan(33, 8));
  BatchIterator b(dense, shuffled_plan(33, 8));
  const auto sparse_batches = drain(a);
  const auto dense_batches = drain(b);
  ASSERT_EQ(sparse_batches.size(), dense_batches.size());
  for (std::size_t k = 0; k < sparse_batches.size(); ++k) {
    const auto& csr = std::get<matrix::CsrBlock>(sparse_batches[k]->batch().x);
    const auto& block = std::get<matrix::DenseBlock>(dense_batches[k]->batch().x);
    const auto& values = std::get<matrix::Buffer<float>>(block.values);
    for (std::int64_t i = 0; i < csr.n_rows; ++i) {
      std::vector<float> expected(kSourceGenes);
      for (const auto& [gene, value] : row_of(csr, i)) expected[gene] = value;
      for (std::int64_t g = 0; g < kSourceGenes; ++g)
        ASSERT_EQ(values[i * kSourceGenes + g], expected[g]);
    }
  }
}

TEST(Loader, SelectionShortensRowsWithoutGaps) {
  const auto source = source_block();
  std::vector<std::string> genes{"gene_100", "gene_3", "gene_50"};
  LoaderOptions options{.threads = 2};
  options.transforms = {std::make_shared<transform::NormalizeTotal>(1000),
                        std::make_shared<transform::SelectGenes>(genes)};
  const auto core = make_loader_core(two_stores(memory_store()), options);
  EXPECT_EQ(core->matrices[0].pipeline->genes().names, genes);
  BatchIterator iterator(core, shuffled_plan(64));
  for (const auto& loaded : drain(iterator)) {
    const auto& block = std::get<matrix::CsrBlock>(loaded->batch().x);
    EXPECT_EQ(static_cast<std::size_t>(block.indptr[block.n_rows]), block.indices.size());
    for (std::int64_t i = 0; i < block.n_rows; ++i) {
      const auto full = row_of(source, loaded->batch().rows[i] % kSourceRows);
      double total = 0;
      for (const auto& [gene, value] : full) total += value;
      const auto got = row_of(block, i);
      for (const auto& [column, gene] : {std::pair{0, 100}, {1, 3}, {2, 50}}) {
        ASSERT_EQ(got.contains(column), full.contains(gene));
        if (full.contains(gene) && total > 0) {
          EXPECT_NEAR(got.at(column), full.at(gene) * 1000 / total, 1e-3);
        }
      }
    }
  }
}

// Rows that change are made in scratch memory where their batch goes past the caches.
TEST(Loader, BatchesPastTheCachesAreTheOthers) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (const std::int64_t width : {kSourceGenes, kSourceGenes / 2})
    stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(
        testing::random_csr({.n_rows = kSourceRows, .n_cols = width, .density = 0.4}))));
  const auto cells = std::make_shared<const collection::Collection>(
      std::move(stores), collection::CollectionOptions{.join = collection::Join::kOuter});
  const auto select = std::make_shared<transform::SelectGenes>(
      std::vector<std::string>{"gene_9", "gene_70", "gene_4", "gene_100", "gene_31"});
  using Transforms = std::vector<std::shared_ptr<const transform::Transform>>;
  for (const auto& transforms : {Transforms{}, Transforms{std::make_shared<transform::Log1p>()},
                                 Transforms{std::make_shared<transform::Log1p>(), select}})
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      // A cache for ever more batches has no room for any.
      const auto batches_of = [&](int prefetch_batches) {
        const auto core = make_loader_core(cells, {.dtype = dtype,
                                                   .transforms = transforms,
                                                   .threads = 2,
                                                   .prefetch_batches = prefetch_batches});
        BatchIterator iterator(core, shuffled_plan(100, 4));
        std::vector<matrix::CsrBlock> blocks;
        for (const auto& loaded : drain(iterator))
          blocks.push_back(std::move(std::get<matrix::CsrBlock>(loaded->batch().x)));
        return blocks;
      };
      const auto cached = batches_of(2);
      const auto streamed = batches_of(1 << 24);
      ASSERT_EQ(cached.size(), streamed.size());
      for (std::size_t b = 0; b < cached.size(); ++b) {
        ASSERT_TRUE(std::ranges::equal(cached[b].indptr.span(), streamed[b].indptr.span()));
        ASSERT_TRUE(std::ranges::equal(cached[b].indices.span(), streamed[b].indices.span()));
        std::visit(
            [&](const auto& values) {
              using Values = std::decay_t<decltype(values)>;
              ASSERT_TRUE(
                  std::ranges::equal(values.span(), std::get<Values>(streamed[b].values).span()));
            },
            cached[b].values);
      }
    }
}

// The first batches have room for what genes hold on average, and later ones for what these held.
TEST(Loader, BatchesOfTheGenesThatHoldMostEntriesAreWhole) {
  constexpr std::int64_t kRows = 2000;
  auto source = testing::random_csr({.n_rows = kRows, .n_cols = 10, .density = 0.8});
  source.n_cols = 400;  // of which 390 are never expressed
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(source)));
  const auto cells = std::make_shared<const collection::Collection>(
      std::move(stores), collection::CollectionOptions{});
  std::vector<std::string> genes;
  for (int g = 9; g >= 0; --g) genes.push_back("gene_" + std::to_string(g));
  for (const int threads : {1, 4}) {
    const auto core = make_loader_core(
        cells,
        {.transforms = {std::make_shared<transform::SelectGenes>(genes)}, .threads = threads});
    const sampling::Plan plan(std::make_shared<sampling::BlockShuffling>(kRows, 1),
                              {.batch_size = 300}, 1, 0);
    BatchIterator iterator(core, plan);
    std::int64_t n_rows = 0;
    for (const auto& loaded : drain(iterator)) {
      const auto& block = std::get<matrix::CsrBlock>(loaded->batch().x);
      for (std::int64_t i = 0; i < block.n_rows; ++i, ++n_rows) {
        testing::RowEntries expected;
        for (const auto& [gene, value] : row_of(source, loaded->batch().rows[i]))
          expected[9 - gene] = value;
        ASSERT_EQ(row_of(block, i), expected);
      }
    }
    EXPECT_EQ(n_rows, kRows);
  }
}

TEST(Loader, AnErrorComesAfterTheGoodBatches) {
  const auto core = make_loader_core(
      two_stores(std::make_unique<TroubledStore>(memory_store(), 400, 0, 1)), {.threads = 2});
  sampling::Plan plan(std::make_shared<sampling::Streaming>(2 * kSourceRows),
                      {.batch_size = 50, .fetch_factor = 1}, 0, 0);
  BatchIterator iterator(core, plan);
  std::size_t good = 0;
  try {
    for (;;) {
      std::shared_ptr<LoadedBatch> batch;
      const auto status = iterator.next(1000, &batch);
      if (status == BatchIterator::Status::kEnd) break;
      if (status == BatchIterator::Status::kReady) ++good;
    }
    FAIL() << "the damaged row was not reported";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
  }
  EXPECT_EQ(good, 8u);  // row 400 is the first of the ninth
  std::shared_ptr<LoadedBatch> batch;
  EXPECT_EQ(iterator.next(0, &batch), BatchIterator::Status::kEnd);
}

TEST(Loader, AbandonedIteratorsEndAtOnce) {
  const auto core = make_loader_core(
      two_stores(std::make_unique<TroubledStore>(memory_store(), -1, 1, 1000)), {.threads = 2});
  for (int round = 0; round < 20; ++round) {
    BatchIterator iterator(core, shuffled_plan(16, 8, static_cast<std::uint64_t>(round)));
    std::shared_ptr<LoadedBatch> batch;
    iterator.next(round, &batch);
  }
  BatchIterator never_started(core, shuffled_plan(16));
}

TEST(Loader, StopWakesAWaitingConsumer) {
  const auto core = make_loader_core(
      two_stores(std::make_unique<TroubledStore>(memory_store(), -1, 200, 1000)), {.threads = 1});
  BatchIterator iterator(core, shuffled_plan(500));
  std::jthread stopper([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop_all_iterators();
  });
  std::shared_ptr<LoadedBatch> batch;
  BatchIterator::Status status;
  do status = iterator.next(60'000, &batch);  // of 100 s that the rows take
  while (status == BatchIterator::Status::kReady);
  EXPECT_EQ(status, BatchIterator::Status::kEnd);
}

TEST(Loader, ABudgetSmallerThanABatchStillMovesOn) {
  const auto core = make_loader_core(
      two_stores(std::make_unique<TroubledStore>(memory_store(), -1, 0, 50'000'000)),
      {.memory_budget = exec::kMinMemoryBudget, .threads = 2});
  BatchIterator iterator(core, shuffled_plan(100));
  EXPECT_EQ(drain(iterator).size(), 10u);
}

TEST(Loader, IteratorsOfOneSmallBudgetAllGoOn) {
  const auto core = make_loader_core(
      two_stores(std::make_unique<TroubledStore>(memory_store(), -1, 0, 1'000'000)),
      {.memory_budget = exec::kMinMemoryBudget, .threads = 2});
  BatchIterator iterators[] = {
      {core, shuffled_plan(20)}, {core, shuffled_plan(20)}, {core, shuffled_plan(20)}};
  std::vector<std::size_t> rows(3);
  // The third is begun, and then left alone with what it holds.
  std::shared_ptr<LoadedBatch> batch;
  iterators[2].next(1, &batch);
  for (std::size_t n_over = 0; n_over < 2;) {
    n_over = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto status = iterators[i].next(10'000, &batch);
      ASSERT_NE(status, BatchIterator::Status::kWaiting);
      n_over += status == BatchIterator::Status::kEnd ? 1 : 0;
      if (status == BatchIterator::Status::kReady)
        rows[i] += static_cast<std::size_t>(batch->batch().n_rows());
      batch.reset();
    }
  }
  EXPECT_THAT(rows, ::testing::ElementsAre(2 * kSourceRows, 2 * kSourceRows, 0));
}

TEST(Loader, BatchesOutliveTheirLoader) {
  std::vector<std::shared_ptr<LoadedBatch>> batches;
  {
    const auto core = make_loader_core(two_stores(memory_store()), {.threads = 2});
    BatchIterator iterator(core, shuffled_plan(100));
    batches = drain(iterator);
  }
  std::int64_t rows = 0;
  for (const auto& loaded : batches) rows += loaded->batch().n_rows();
  EXPECT_EQ(rows, 2 * kSourceRows);
}

TEST(Loader, WorkersTakeBatchesInTurn) {
  const auto core = make_loader_core(two_stores(memory_store()), {.threads = 1});
  BatchIterator whole(core, shuffled_plan(60));
  const auto expected = drain(whole);
  ASSERT_EQ(expected.size(), 17u);
  for (std::int64_t w = 0; w < 3; ++w) {
    BatchIterator share(core, shuffled_plan(60), w, 3);
    const auto batches = drain(share);
    ASSERT_EQ(batches.size(), w < 2 ? 6u : 5u);
    for (std::size_t k = 0; k < batches.size(); ++k)
      EXPECT_EQ(batches[k]->batch().rows,
                expected[static_cast<std::size_t>(w) + 3 * k]->batch().rows);
  }
}

TEST(Loader, ReadsRowsInTheOrderAskedFor) {
  const auto source = source_block();
  const auto core = make_loader_core(two_stores(memory_store()), {.threads = 2});
  const std::vector<std::int64_t> rows{999, 3, 3, 500, 0};
  const auto loaded = read_rows(*core, rows);
  const auto& block = std::get<matrix::CsrBlock>(loaded->batch().x);
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(row_of(block, static_cast<std::int64_t>(i)), row_of(source, rows[i] % kSourceRows));
  const std::vector<std::int64_t> outside{1000};
  EXPECT_THROW(read_rows(*core, outside), Error);
}

TEST(Loader, RefusesSettingsThatCannotWork) {
  const auto cells = two_stores(memory_store());
  EXPECT_THROW(make_loader_core(cells, {.memory_budget = 0}), Error);
  EXPECT_THROW(make_loader_core(cells, {.memory_budget = exec::kMinMemoryBudget - 1}), Error);
  EXPECT_THROW(make_loader_core(cells, {.threads = -1}), Error);
  EXPECT_THROW(make_loader_core(cells, {.threads = exec::kMaxThreads + 1}), Error);
  EXPECT_THROW(make_loader_core(cells, {.dtype = DType::kU8}), Error);
  EXPECT_THROW(make_loader_core(cells, {.obs = {"nowhere"}}), Error);
  LoaderOptions integers{.dtype = DType::kI32};
  integers.transforms = {std::make_shared<transform::Log1p>()};
  EXPECT_THROW(make_loader_core(cells, integers), Error);
}

}  // namespace
}  // namespace cellfeed::loader
