// A format, a strategy and a transform that exist for this test alone, each of one class: what the
// seams ask of whoever adds one, and that the loader asks no more.
#include <arrow/api.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/fingerprint.h"
#include "cellfeed/testing/drain.h"
#include "cellfeed/testing/row_entries.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/strategy_conformance.h"

namespace cellfeed::loader {
namespace {

// ---- a format: each row's lists by themselves, as scipy's LIL; annotations from a table beside

class ListedRows final : public format::RowStore {
 public:
  struct Row {
    std::vector<std::int32_t> columns;
    std::vector<std::byte> values;
  };

  ListedRows(const matrix::CsrBlock& block, DType stored)
      : beside_(format::memory::make_memory_store(format::memory::make_stored_csr(block, stored))),
        info_(beside_->info()),
        decoder_("listed", "X", info_.n_cols, DType::kI32, stored) {
    info_.format = "listed";
    const format::memory::StoredCsr all = format::memory::make_stored_csr(block, stored);
    const auto width = static_cast<std::int64_t>(dtype_bytes(stored));
    for (std::int64_t row = 0; row < block.n_rows; ++row) {
      const auto begin = all.indptr[row], end = all.indptr[row + 1];
      rows_.push_back({{all.indices.data() + begin, all.indices.data() + end},
                       {all.values.data() + begin * width, all.values.data() + end * width}});
    }
  }

  const format::StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return beside_->genes(); }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext&) const override {
    std::vector<const Row*> wanted;
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= info_.n_rows)
        throw Error(ErrorKind::kOutOfRange, fmt::format("row out of range: {}", row), "listed");
      wanted.push_back(&rows_[row]);
    }
    return std::make_unique<Fetched>(*this, std::vector(rows.begin(), rows.end()),
                                     std::move(wanted));
  }
  format::ReadPlan plan(std::span<const std::int64_t>) const override { return {}; }
  std::vector<std::string> obs_names() const override { return beside_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return beside_->obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return beside_->read_obs(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return beside_->read_var(); }
  std::uint64_t fingerprint() const override { return beside_->fingerprint(); }

 private:
  class Fetched final : public format::FetchedRows {
   public:
    Fetched(const ListedRows& store, std::vector<std::int64_t> numbers,
            std::vector<const Row*> rows)
        : store_(store), numbers_(std::move(numbers)), rows_(std::move(rows)) {}
    std::int64_t n_rows() const override { return std::ssize(rows_); }
    void sizes(std::span<std::int64_t> nnz) const override {
      for (std::size_t i = 0; i < rows_.size(); ++i) nnz[i] = std::ssize(rows_[i]->columns);
    }
    void decode(std::int64_t begin, std::int64_t end,
                const format::CsrTarget& sink) const override {
      const auto width = static_cast<std::int64_t>(dtype_bytes(sink.dtype));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t n = std::ssize(rows_[i]->columns);
        const format::RowPiece columns{reinterpret_cast<const std::byte*>(rows_[i]->columns.data()),
                                       n};
        const format::RowPiece values{rows_[i]->values.data(), n};
        sink.counts[i] =
            store_.decoder_.decode(numbers_[i], {&columns, 1}, {&values, 1}, sink.dtype,
                                   sink.casting, sink.indices + sink.place[i],
                                   static_cast<std::byte*>(sink.values) + sink.place[i] * width,
                                   {.past_caches = sink.past_caches});
      }
      format::publish_row_copies(sink.past_caches);
    }
    std::int64_t bytes_read() const override { return 0; }
    std::int64_t bytes_used() const override { return 0; }

   private:
    const ListedRows& store_;
    const std::vector<std::int64_t> numbers_;
    const std::vector<const Row*> rows_;
  };

  std::unique_ptr<format::RowStore> beside_;
  format::StoreInfo info_;
  format::RowDecoder decoder_;
  std::vector<Row> rows_;
};

const bool kRegistered = testing::register_row_store_conformance(
    "listed", [](const matrix::CsrBlock& block, DType stored) -> std::unique_ptr<format::RowStore> {
      return std::make_unique<ListedRows>(block, stored);
    });

// ---- a strategy: from the last row to the first

class Backwards final : public sampling::Strategy {
 public:
  explicit Backwards(std::int64_t n_rows) : n_rows_(n_rows) {}
  std::string_view name() const override { return "Backwards"; }
  std::int64_t length(const sampling::OrderKey&) const override { return n_rows_; }
  void samples(const sampling::OrderKey&, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override {
    for (std::int64_t i = 0; i < std::ssize(out); ++i) out[i] = n_rows_ - 1 - (begin + i * stride);
  }
  std::int64_t n_rows() const override { return n_rows_; }
  std::uint64_t fingerprint() const override {
    return sampling::Fingerprint(name()).add_signed(n_rows_).value();
  }

 private:
  std::int64_t n_rows_;
};

TEST(ThrowawayStrategy, Conforms) {
  testing::check_strategy(
      [] { return std::make_shared<Backwards>(100); },
      {.is_random = false, .draws_each_once = true, .expected_rows = testing::rows_up_to(100)});
}

// ---- a transform: twice the value

class Doubled final : public transform::Transform {
 public:
  std::string name() const override { return "Doubled"; }
  bool needs_float() const override { return true; }
  void apply(transform::Row& row) const override {
    auto* values = static_cast<float*>(row.values);
    for (std::int32_t i = 0; i < row.size; ++i) values[i] *= 2;
  }
};

// ---- all three

TEST(Throwaway, FormatStrategyAndTransformMakeBatches) {
  constexpr std::int64_t kRows = 90, kRowsOfFirst = 50;
  std::vector<matrix::CsrBlock> blocks;
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (const std::int64_t n : {kRowsOfFirst, kRows - kRowsOfFirst}) {
    blocks.push_back(
        testing::random_csr({.n_rows = n, .n_cols = 30, .seed = static_cast<std::uint64_t>(n)}));
    stores.push_back(std::make_unique<ListedRows>(blocks.back(), DType::kF32));
  }
  const auto cells = std::make_shared<const collection::Collection>(
      std::move(stores), collection::CollectionOptions{});
  const auto strategy = std::make_shared<const Backwards>(kRows);
  for (const Output output : {Output::kCsr, Output::kDense}) {
    const auto core = make_loader_core(
        cells, {.output = output, .transforms = {std::make_shared<const Doubled>()}, .threads = 2});
    BatchIterator iterator(core, {strategy, {.batch_size = 8, .fetch_factor = 2}, 1, 0});
    std::int64_t next = kRows;
    for (const auto& loaded : testing::drain(iterator)) {
      const matrix::Batch& batch = loaded->batch();
      for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        ASSERT_EQ(batch.rows[i], --next);
        testing::RowEntries expected = testing::row_of(blocks, next);
        for (auto& [column, value] : expected) value *= 2;
        if (const auto* csr = std::get_if<matrix::CsrBlock>(&batch.x)) {
          EXPECT_EQ(testing::row_of(*csr, static_cast<std::int64_t>(i)), expected);
        } else {
          const auto& values =
              std::get<matrix::Buffer<float>>(std::get<matrix::DenseBlock>(batch.x).values);
          for (std::int32_t column = 0; column < 30; ++column)
            EXPECT_EQ(values[i * 30 + column], expected.contains(column) ? expected[column] : 0.0f);
        }
      }
    }
    EXPECT_EQ(next, 0);
  }
}

}  // namespace
}  // namespace cellfeed::loader
