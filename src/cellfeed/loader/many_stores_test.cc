// The whole loader over fifty stores, of which some are slow, some have tasks and one fails: every
// sink, with transforms and obs, on several threads. What thread sanitizers look at.
#include <arrow/api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/testing/drain.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/row_entries.h"
#include "cellfeed/testing/slow_row_store.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::loader {
namespace {

using testing::drain;

constexpr std::int64_t kManyStores = 50;
constexpr std::int64_t kCellsOfEach = 24;
constexpr std::int64_t kCells = kManyStores * kCellsOfEach;
constexpr std::int64_t kGenesOfAll = 60;

matrix::CsrBlock block_of(std::int64_t store) {
  return testing::random_csr({.n_rows = kCellsOfEach,
                              .n_cols = kGenesOfAll,
                              .density = 0.3,
                              .seed = static_cast<std::uint64_t>(1000 + store)});
}

// Column "store" has the number of the store.
std::shared_ptr<arrow::Table> store_column(std::int64_t store) {
  arrow::StringBuilder names;
  arrow::Int64Builder numbers;
  for (std::int64_t i = 0; i < kCellsOfEach; ++i) {
    EXPECT_TRUE(names.Append(std::to_string(i)).ok());
    EXPECT_TRUE(numbers.Append(store).ok());
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("_index", arrow::utf8()), arrow::field("store", arrow::int64())}),
      {*names.Finish(), *numbers.Finish()});
}

// Rows whose bytes need work on the pool before they are there, or that cannot be read.
class WorkingStore final : public format::ForwardingStore {
 public:
  WorkingStore(std::unique_ptr<RowStore> inner, std::atomic<bool>* fails)
      : ForwardingStore(std::move(inner)), fails_(fails) {}
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    return std::make_unique<Rows>(store_->begin(rows, context), fails_);
  }

 private:
  class Rows final : public testing::ForwardingRows {
   public:
    Rows(std::unique_ptr<format::FetchedRows> rows, std::atomic<bool>* fails)
        : ForwardingRows(std::move(rows)),
          fails_(fails),
          is_done_(static_cast<std::size_t>(n_rows()), 0) {}
    std::int64_t n_tasks() const override { return n_rows(); }
    void run(std::int64_t task) override {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (fails_ != nullptr && *fails_)
        throw Error(ErrorKind::kCorruptData, "planted fault", "working");
      is_done_[static_cast<std::size_t>(task)] = 1;
    }
    void decode(std::int64_t begin, std::int64_t end,
                const format::CsrTarget& sink) const override {
      for (std::int64_t i = begin; i < end; ++i)
        EXPECT_EQ(is_done_[static_cast<std::size_t>(i)], 1);
      ForwardingRows::decode(begin, end, sink);
    }

   private:
    std::atomic<bool>* const fails_;
    std::vector<std::uint8_t> is_done_;
  };

  std::atomic<bool>* const fails_;
};

std::shared_ptr<const collection::Collection> many_stores(std::atomic<bool>* fails = nullptr) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (std::int64_t s = 0; s < kManyStores; ++s) {
    auto store = format::memory::make_memory_store(format::memory::make_stored_csr(block_of(s)),
                                                   store_column(s));
    if (s % 5 == 1)
      store = std::make_unique<testing::SlowRowStore>(
          std::move(store), testing::SlowStoreOptions{.seed = static_cast<std::uint64_t>(s)});
    else if (s % 5 == 2)
      store = std::make_unique<WorkingStore>(std::move(store), s == 32 ? fails : nullptr);
    stores.push_back(std::move(store));
  }
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{});
}

sampling::Plan plan_of_all(std::uint64_t epoch = 0) {
  return {std::make_shared<sampling::BlockShuffling>(kCells, 1),
          {.batch_size = 70, .fetch_factor = 3},
          5,
          epoch};
}

std::vector<std::string> every_other_gene() {
  std::vector<std::string> genes;
  for (std::int64_t g = 0; g < kGenesOfAll; g += 2) genes.push_back("gene_" + std::to_string(g));
  return genes;
}

LoaderOptions options_of(Output output, int threads) {
  LoaderOptions options{.output = output, .obs = {"store"}, .threads = threads};
  options.transforms = {std::make_shared<transform::NormalizeTotal>(100),
                        std::make_shared<transform::Log1p>(),
                        std::make_shared<transform::SelectGenes>(every_other_gene())};
  if (output == Output::kTokens) {
    TokenOutput tokens;
    tokens.tokenizer.genes = every_other_gene();
    for (std::size_t i = 0; i < tokens.tokenizer.genes.size(); ++i)
      tokens.tokenizer.ids.push_back(transform::kFirstGeneToken + static_cast<std::int32_t>(i));
    tokens.tokenizer.max_length = 16;
    options.tokens = std::make_shared<const TokenOutput>(std::move(tokens));
  }
  return options;
}

// All numbers of a batch.
std::vector<double> numbers_of(const matrix::Batch& batch) {
  std::vector<double> numbers(batch.rows.begin(), batch.rows.end());
  const auto append = [&](const auto& array) {
    numbers.insert(numbers.end(), array.begin(), array.end());
  };
  if (const auto* csr = std::get_if<matrix::CsrBlock>(&batch.x)) {
    append(csr->indptr);
    append(csr->indices);
    std::visit(append, csr->values);
  } else if (const auto* dense = std::get_if<matrix::DenseBlock>(&batch.x)) {
    std::visit(append, dense->values);
  } else {
    const auto& tokens = std::get<matrix::TokenBlock>(batch.x);
    const auto n = static_cast<std::size_t>(tokens.n_rows * tokens.width);
    append(std::span(tokens.at<std::int32_t>(tokens.layout.ids), n));
    append(std::span(tokens.at<float>(tokens.layout.values), n));
  }
  return numbers;
}

class ManyStores : public ::testing::TestWithParam<Output> {};

TEST_P(ManyStores, GiveTheSameBatchesToAnyNumberOfThreads) {
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 4}) {
    const auto core = make_loader_core(many_stores(), options_of(GetParam(), threads));
    std::vector<std::vector<double>> all;
    std::vector<int> seen(kCells);
    BatchIterator iterator(core, plan_of_all());
    for (const auto& loaded : drain(iterator)) {
      const matrix::Batch& batch = loaded->batch();
      all.push_back(numbers_of(batch));
      ASSERT_EQ(batch.obs.size(), 1u);
      ASSERT_EQ(batch.obs[0].dtype, DType::kI64);
      const auto* stores = reinterpret_cast<const std::int64_t*>(batch.obs[0].bytes.data());
      for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        ++seen[batch.rows[i]];
        EXPECT_EQ(stores[i], batch.rows[i] / kCellsOfEach);
      }
    }
    EXPECT_EQ(seen, std::vector<int>(kCells, 1));
    if (threads == 1) first = all;
    EXPECT_EQ(all, first);
  }
}

TEST_P(ManyStores, MayBeLeftAtAnyBatch) {
  const auto core = make_loader_core(many_stores(), options_of(GetParam(), 4));
  for (int n_taken = 0; n_taken < 6; ++n_taken) {
    BatchIterator iterator(core, plan_of_all(static_cast<std::uint64_t>(n_taken)));
    std::shared_ptr<LoadedBatch> batch;
    for (int i = 0; i < n_taken; ++i)
      ASSERT_EQ(iterator.next(10'000, &batch), BatchIterator::Status::kReady);
  }
}

TEST_P(ManyStores, OneThatFailsIsNamedAndReadAgainOnceItIsWell) {
  std::atomic<bool> fails{true};
  const auto core = make_loader_core(many_stores(&fails), options_of(GetParam(), 4));
  try {
    BatchIterator iterator(core, plan_of_all());
    drain(iterator);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
    EXPECT_NE(std::string(error.what()).find("working"), std::string::npos) << error.what();
  }
  fails = false;
  BatchIterator iterator(core, plan_of_all());
  EXPECT_EQ(std::ssize(drain(iterator)), (kCells + 69) / 70);
}

INSTANTIATE_TEST_SUITE_P(Outputs, ManyStores,
                         ::testing::Values(Output::kCsr, Output::kDense, Output::kTokens));

}  // namespace
}  // namespace cellfeed::loader
