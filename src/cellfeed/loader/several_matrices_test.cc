// Batches of several matrices against the source rows of each, also where their stores are cut
// otherwise, fail or are large.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_assembly.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::row_of;
using testing::RowEntries;

using Stores = std::vector<std::unique_ptr<format::RowStore>>;

Stores stores_of(const std::vector<matrix::CsrBlock>& made) {
  Stores stores;
  for (const auto& block : made)
    stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(block)));
  return stores;
}

std::shared_ptr<const collection::Collection> collect(Stores stores) {
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{});
}

std::shared_ptr<const collection::Collection> collect(const std::vector<matrix::CsrBlock>& made) {
  return collect(stores_of(made));
}

class SeveralMatrices : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 600;
  static constexpr std::int64_t kGenes = 40;

  static std::vector<matrix::CsrBlock> blocks(const std::vector<std::int64_t>& n_rows,
                                              std::uint64_t seed, std::int64_t n_cols = kGenes) {
    std::vector<matrix::CsrBlock> made;
    for (const std::int64_t n : n_rows)
      made.push_back(
          testing::random_csr({.n_rows = n, .n_cols = n_cols, .density = 0.3, .seed = seed++}));
    return made;
  }
  static sampling::Plan plan_of(std::int64_t batch_size, std::int64_t fetch_factor = 4) {
    return sampling::Plan(std::make_shared<sampling::BlockShuffling>(kRows, 1),
                          {.batch_size = batch_size, .fetch_factor = fetch_factor}, 11, 0);
  }

  const std::vector<matrix::CsrBlock> x_ = blocks({250, 350}, 1);
  const std::vector<matrix::CsrBlock> alike_ = blocks({250, 350}, 5);
  const std::vector<matrix::CsrBlock> otherwise_ = blocks({600}, 9);
  const std::vector<matrix::CsrBlock> narrow_ = blocks({100, 100, 400}, 13, 7);

  std::shared_ptr<const collection::Collection> cells() const {
    return collect(x_)->with_matrices({{"layers/alike", collect(alike_)},
                                       {"layers/otherwise", collect(otherwise_)},
                                       {"obsm/narrow", collect(narrow_)}});
  }
};

TEST_F(SeveralMatrices, EveryRowOfEachArrivesInItsPlace) {
  for (const int threads : {1, 3}) {
    const auto core = make_loader_core(cells(), {.threads = threads});
    BatchIterator iterator(core, plan_of(64));
    std::vector<int> seen(kRows);
    for (const auto& loaded : drain(iterator)) {
      const matrix::Batch& batch = loaded->batch();
      ASSERT_EQ(batch.others.size(), 3u);
      for (std::int64_t i = 0; i < batch.n_rows(); ++i) {
        const std::int64_t row = batch.rows[i];
        ++seen[row];
        std::size_t m = 0;
        for (const auto* source : {&x_, &alike_, &otherwise_, &narrow_})
          EXPECT_EQ(row_of(std::get<matrix::CsrBlock>(batch.block(m++)), i), row_of(*source, row));
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

TEST_F(SeveralMatrices, AreDenseOrSparseAndOfTypesOfTheirOwn) {
  const auto core = make_loader_core(cells(), {.matrices = {{Output::kDense, DType::kF64},
                                                            {Output::kCsr, DType::kF32},
                                                            {Output::kDense, DType::kF32}},
                                               .threads = 2});
  const std::vector<std::int64_t> rows{599, 3, 3, 250, 0};
  const auto loaded = read_rows(*core, rows);
  const matrix::Batch& batch = loaded->batch();
  const auto& alike = std::get<matrix::DenseBlock>(batch.block(1));
  const auto& values = std::get<matrix::Buffer<double>>(alike.values);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto expected = row_of(alike_, rows[i]);
    for (std::int32_t g = 0; g < kGenes; ++g)
      EXPECT_EQ(values[i * kGenes + static_cast<std::size_t>(g)],
                expected.contains(g) ? expected.at(g) : 0.0F);
    EXPECT_EQ(row_of(std::get<matrix::CsrBlock>(batch.block(2)), static_cast<std::int64_t>(i)),
              row_of(otherwise_, rows[i]));
  }
  EXPECT_EQ(matrix::block_columns(batch.block(3)), 7);
}

TEST_F(SeveralMatrices, SelectedRowsAreOfAll) {
  const std::vector<std::int64_t> first{500, 2, 260, 9};
  const std::vector<std::int64_t> second{3, 0};
  const auto selected = cells()->with_rows(first)->with_rows(second);
  const auto core = make_loader_core(selected, {.threads = 2});
  const std::vector<std::int64_t> rows{1, 0};
  const auto loaded = read_rows(*core, rows);
  std::size_t m = 0;
  for (const auto* source : {&x_, &alike_, &otherwise_, &narrow_}) {
    const auto& block = std::get<matrix::CsrBlock>(loaded->batch().block(m++));
    EXPECT_EQ(row_of(block, 0), row_of(*source, 500));
    EXPECT_EQ(row_of(block, 1), row_of(*source, 9));
  }
}

TEST_F(SeveralMatrices, TransformsAreOfTheFirstAndChoicesOfThoseWithItsGenes) {
  LoaderOptions options{.threads = 2};
  options.transforms = {
      std::make_shared<transform::Log1p>(),
      std::make_shared<transform::SelectGenes>(std::vector<std::string>{"gene_7", "gene_3"})};
  const auto core = make_loader_core(cells(), options);
  const std::vector<std::int64_t> rows{17};
  const auto loaded = read_rows(*core, rows);
  const auto chosen = [](const RowEntries& entries) {
    RowEntries kept;
    for (const auto& [from, to] : {std::pair{7, 0}, std::pair{3, 1}})
      if (entries.contains(from)) kept[to] = entries.at(from);
    return kept;
  };
  const matrix::Batch& batch = loaded->batch();
  EXPECT_EQ(row_of(std::get<matrix::CsrBlock>(batch.block(1)), 0), chosen(row_of(alike_, 17)));
  EXPECT_EQ(row_of(std::get<matrix::CsrBlock>(batch.block(2)), 0), chosen(row_of(otherwise_, 17)));
  EXPECT_EQ(row_of(std::get<matrix::CsrBlock>(batch.block(3)), 0), row_of(narrow_, 17));
  EXPECT_EQ(matrix::block_columns(batch.block(0)), 2);
}

TEST_F(SeveralMatrices, ChosenGenesAreOfThoseThatHaveThem) {
  const std::vector<std::int64_t> columns{7, 3};
  const auto chosen = cells()->with_genes(columns);
  for (const std::size_t m : {0, 1, 2})
    EXPECT_THAT(chosen->matrix(m).genes().names, ElementsAre("gene_7", "gene_3"));
  EXPECT_EQ(chosen->matrix(3).genes().size(), 7);
  const std::vector<std::int64_t> rows{17};
  const auto loaded = read_rows(*make_loader_core(chosen, {.threads = 2}), rows);
  const RowEntries whole = row_of(otherwise_, 17);
  const RowEntries found = row_of(std::get<matrix::CsrBlock>(loaded->batch().block(2)), 0);
  EXPECT_EQ(found.contains(0), whole.contains(7));
  EXPECT_EQ(found.contains(1), whole.contains(3));
  EXPECT_EQ(found.contains(0) ? found.at(0) : 0.0F, whole.contains(7) ? whole.at(7) : 0.0F);
}

TEST_F(SeveralMatrices, OtherNumbersOfCellsAreRefused) {
  const auto x = collect(x_);
  try {
    (void)x->with_matrices({{"layers/longer", collect(blocks({250, 351}, 1))}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("'X' has 350 cells, and 'layers/longer' has 351"));
  }
  EXPECT_THROW((void)x->with_matrices({{"layers/swapped", collect(blocks({350, 250}, 1))}}), Error);
  EXPECT_THROW((void)x->with_matrices({{"layers/other", collect(blocks({601}, 1))}}), Error);
}

TEST_F(SeveralMatrices, ChangeTheFingerprint) {
  const auto x = collect(x_);
  const auto one = x->with_matrices({{"layers/a", collect(alike_)}});
  EXPECT_EQ(x->with_matrices({})->fingerprint(), x->fingerprint());
  EXPECT_NE(one->fingerprint(), x->fingerprint());
  EXPECT_NE(one->fingerprint(), x->with_matrices({{"layers/b", collect(alike_)}})->fingerprint());
  EXPECT_NE(one->fingerprint(),
            x->with_matrices({{"layers/a", collect(blocks({250, 350}, 77))}})->fingerprint());
}

// Of rows that take memory while they are read; one of them may not be read.
class HeavyStore final : public format::ForwardingStore {
 public:
  HeavyStore(std::unique_ptr<RowStore> inner, std::int64_t row_bytes, std::int64_t bad_row)
      : ForwardingStore(std::move(inner)),
        row_bytes_(row_bytes),
        bad_row_(bad_row),
        info_(store_->info()) {
    info_.inflated_bytes = std::int64_t{3} << 20;
  }
  const format::StoreInfo& info() const override { return info_; }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    for (const std::int64_t row : rows)
      if (row == bad_row_) throw Error(ErrorKind::kCorruptData, "row is damaged", "heavy");
    return store_->begin(rows, context);
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return {.bytes_held = row_bytes_ * std::ssize(rows)};
  }
  void set_cache_bytes(std::int64_t bytes) const override { cache_bytes = bytes; }

  mutable std::int64_t cache_bytes = -1;

 private:
  std::int64_t row_bytes_;
  std::int64_t bad_row_;
  format::StoreInfo info_;
};

TEST_F(SeveralMatrices, AnErrorInOneEndsTheBatches) {
  Stores stores;
  stores.push_back(std::make_unique<HeavyStore>(std::move(stores_of(otherwise_)[0]), 1, kRows / 2));
  const auto cells = collect(x_)->with_matrices({{"layers/bad", collect(std::move(stores))}});
  BatchIterator iterator(make_loader_core(cells, {.threads = 2}), plan_of(32, 1));
  EXPECT_THROW(drain(iterator), Error);
}

TEST_F(SeveralMatrices, TheirMemoryIsCounted) {
  constexpr std::int64_t kLargeRow = 400'000;
  Stores stores;
  stores.push_back(
      std::make_unique<HeavyStore>(std::move(stores_of(otherwise_)[0]), kLargeRow, -1));
  const auto cells = collect(x_)->with_matrices({{"layers/heavy", collect(std::move(stores))}});
  Window window(
      make_loader_core(cells, {.threads = 2})->matrices,
      plan_window(*cells, locate_batches(*cells, {{.rows = {1, 2, 500}, .is_padding = {}}})));
  EXPECT_EQ(window.plan().bytes_held, 3 * kLargeRow);
  const auto core =
      make_loader_core(cells, {.memory_budget = exec::kMinMemoryBudget, .threads = 2});
  BatchIterator iterator(core, plan_of(40, 2));
  std::size_t rows = 0;
  for (const auto& loaded : drain(iterator)) rows += loaded->batch().rows.size();
  EXPECT_EQ(rows, kRows);
  EXPECT_GE(core->counters->peak_bytes.load(), 40 * kLargeRow);
}

TEST_F(SeveralMatrices, ShareTheCacheOfTheCollection) {
  const auto heavy = [&](const std::vector<matrix::CsrBlock>& made, const HeavyStore** found) {
    auto store = std::make_unique<HeavyStore>(std::move(stores_of(made)[0]), 1, -1);
    *found = store.get();
    Stores stores;
    stores.push_back(std::move(store));
    return collect(std::move(stores));
  };
  const HeavyStore* first = nullptr;
  const HeavyStore* second = nullptr;
  const auto cells = heavy(otherwise_, &first)
                         ->with_matrices({{"layers/second", heavy(blocks({600}, 3), &second)}});
  const std::int64_t own = collection::CollectionOptions{}.open.cache_bytes;
  EXPECT_THAT((std::vector{first->cache_bytes, second->cache_bytes}),
              ElementsAre(own / 2, own / 2));
  EXPECT_EQ(cells->inflated_bytes(), std::int64_t{6} << 20);
  {
    const auto share = cells->with_rows(std::vector<std::int64_t>{3})->reserve_cache(1000);
    EXPECT_THAT((std::vector{first->cache_bytes, second->cache_bytes}), ElementsAre(500, 500));
  }
  EXPECT_EQ(second->cache_bytes, own / 2);
}

}  // namespace
}  // namespace cellfeed::loader
