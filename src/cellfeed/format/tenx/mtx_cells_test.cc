#include "cellfeed/format/tenx/mtx_cells.h"

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/memory_source.h"

namespace cellfeed::format::tenx {
namespace {

constexpr std::int64_t kCells = 12 * MtxCells::kBlockCells + 5;

// Counts the bytes that are read of it.
class CountedSource final : public io::ByteSource {
 public:
  explicit CountedSource(const std::string& text) : text_(text) {}
  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return std::ssize(text_); }
  std::string_view backend_name() const override { return "counted"; }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    n_read_ += std::ssize(out);
    std::memcpy(out.data(), text_.data() + offset, out.size());
  }
  std::int64_t n_read() const { return n_read_; }

 private:
  const std::string path_ = "barcodes.tsv";
  const std::string text_;
  mutable std::atomic<std::int64_t> n_read_ = 0;
};

std::string name_of(std::int64_t cell) { return fmt::format("cell-{}", cell * 7); }

std::shared_ptr<const CountedSource> source_of_cells(std::int64_t n) {
  std::string text;
  for (std::int64_t cell = 0; cell < n; ++cell)
    text += cell % 3 == 0 ? fmt::format("\"{}\"\tmore\r\n", name_of(cell)) : name_of(cell) + "\n";
  return std::make_shared<CountedSource>(text + "\n \n");
}

void expect_names(const MtxCells& cells, std::int64_t begin, std::int64_t end) {
  const auto table = cells.read(begin, end);
  ASSERT_TRUE(table->ValidateFull().ok());
  ASSERT_EQ(table->num_rows(), end - begin);
  if (begin == end) return;
  ASSERT_EQ(table->column(0)->num_chunks(), 1);
  const auto& names = static_cast<const arrow::StringArray&>(*table->column(0)->chunk(0));
  for (std::int64_t i = 0; i < end - begin; ++i) ASSERT_EQ(names.GetView(i), name_of(begin + i));
}

TEST(MtxCells, AnyRangeHasItsNames) {
  const MtxCells cells(source_of_cells(kCells), false, kCells);
  expect_names(cells, 0, kCells);
  std::mt19937_64 random(1);
  for (int i = 0; i < 30; ++i) {
    const auto begin = static_cast<std::int64_t>(random() % (kCells + 1));
    const auto most = std::min<std::int64_t>(kCells - begin, 100'000);
    expect_names(cells, begin, begin + static_cast<std::int64_t>(random() % (most + 1)));
  }
}

TEST(MtxCells, AscendingRangesReadTheFileOnce) {
  const auto source = source_of_cells(kCells);
  const MtxCells cells(source, false, kCells);
  const std::int64_t before = source->n_read();
  for (std::int64_t begin = 0; begin < kCells; begin += 10'000)
    expect_names(cells, begin, std::min(kCells, begin + 10'000));
  EXPECT_LE(source->n_read() - before, source->size() + 2);
}

TEST(MtxCells, TablesHaveTheirColumnsInEveryBlock) {
  constexpr std::int64_t kFew = 2 * MtxCells::kBlockCells + 5;
  std::string text = "cell,n,part,is_good\n";
  for (std::int64_t i = 0; i < kFew; ++i)
    text += fmt::format("{},{},{},{}\n", name_of(i), i, i == kFew - 1 ? "" : "1", i % 2 == 0);
  const MtxCells cells(std::make_shared<CountedSource>(text), true, kFew);
  EXPECT_EQ(cells.names(), (std::vector<std::string>{"_index", "n", "part", "is_good"}));
  expect_names(cells, 1, kFew);
  const auto last = cells.read(kFew - 2, kFew);
  EXPECT_TRUE(last->schema()->Equals(cells.read(0, 1)->schema()));
  EXPECT_EQ(last->column(2)->type()->id(), arrow::Type::DOUBLE);
  EXPECT_TRUE(last->column(1)->chunk(0)->Equals(cells.read("n")->Slice(kFew - 2)));
}

TEST(MtxCells, ThreadsFindTheSame) {
  const MtxCells cells(source_of_cells(kCells), false, kCells);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      for (std::int64_t begin = thread * 5'000; begin + 20'000 < kCells; begin += 50'000)
        expect_names(cells, begin, begin + 20'000);
    });
}

TEST(MtxCells, NoCellsAndAQuoteThatIsNotClosed) {
  expect_names(MtxCells(source_of_cells(0), false, 0), 0, 0);
  EXPECT_THROW(MtxCells(std::make_shared<CountedSource>("a\n\"b\nc\n"), false, 3), Error);
}

}  // namespace
}  // namespace cellfeed::format::tenx
