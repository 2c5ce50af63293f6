// The .npy file at its limits: shapes whose size overflows, blocks that are checked once, and a
// table of checksums that another file has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/dense_rows.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::format::shard {
namespace {

using cellfeed::testing::error_of;
using ::testing::HasSubstr;

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// A whole file, made here from the format's description.
std::vector<std::byte> make_dense_file(std::int64_t n_rows, std::int64_t n_cols) {
  const DenseLayout layout(n_rows, n_cols, "a");
  std::mt19937 random(5);
  std::vector<float> values(static_cast<std::size_t>(n_rows * n_cols));
  for (float& value : values) value = static_cast<float>(random() % 7);
  std::vector<std::byte> bytes;
  const std::string header = values_header(n_rows, n_cols);
  append(bytes, std::as_bytes(std::span<const char>(header)));
  append(bytes, std::as_bytes(std::span<const float>(values)));
  std::vector<std::uint64_t> checksums;
  for (std::int64_t block = 0; block < layout.n_blocks; ++block)
    checksums.push_back(checksum_bytes(std::span(bytes).subspan(
        layout.block_begin(block), layout.block_end(block) - layout.block_begin(block))));
  const std::string second = checksums_header(layout.n_blocks);
  append(bytes, std::as_bytes(std::span<const char>(second)));
  append(bytes, std::as_bytes(std::span<const std::uint64_t>(checksums)));
  return bytes;
}

DenseFile open(std::vector<std::byte> bytes, std::int64_t n_rows, std::int64_t n_cols,
               int* n_identified = nullptr) {
  return DenseFile(io::make_memory_source("a", std::move(bytes)), n_rows, n_cols,
                   {.check_identity = [n_identified](std::uint64_t) {
                     if (n_identified != nullptr) ++*n_identified;
                   }});
}

TEST(DenseFile, RefusesShapesThatNoFileCanHave) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  // 4 * rows * columns is 0 modulo 2^64, as if the header were all.
  for (const auto& [rows, cols] : {std::pair{std::int64_t{1} << 31, std::int64_t{1} << 31},
                                   {std::int64_t{1} << 50, std::int64_t{1} << 12},
                                   {kLargest, std::int64_t{1}},
                                   {std::int64_t{1}, kLargest},
                                   {kLargest / 4, std::int64_t{1}}}) {
    const std::string header = values_header(rows, cols);
    std::vector<std::byte> bytes;
    append(bytes, std::as_bytes(std::span<const char>(header)));
    EXPECT_THAT(error_of([&, r = rows, c = cols] { open(bytes, r, c); }, ErrorKind::kCorruptData),
                HasSubstr("no file"))
        << rows << " x " << cols;
  }
}

TEST(DenseFile, ChecksEachBlockTheFirstTime) {
  const DenseLayout layout(100, 300, "a");
  ASSERT_EQ(layout.rows_per_block, 13);
  ASSERT_EQ(layout.n_blocks, 8);
  int n_identified = 0;
  const DenseFile sound = open(make_dense_file(100, 300), 100, 300, &n_identified);
  EXPECT_EQ(n_identified, 0);
  for (std::int64_t row = 0; row < 100; ++row) sound.check(row);
  EXPECT_EQ(n_identified, 1);
  for (std::int64_t block = 0; block < layout.n_blocks; ++block)
    for (const std::int64_t at : {layout.block_begin(block), layout.block_end(block) - 1}) {
      auto bytes = make_dense_file(100, 300);
      bytes[static_cast<std::size_t>(at)] ^= std::byte{4};
      const DenseFile file = open(bytes, 100, 300);
      for (std::int64_t row = 0; row < 100; ++row) {
        const std::string error = error_of([&] { file.check(row); }, ErrorKind::kCorruptData);
        if (row / layout.rows_per_block == block)
          EXPECT_THAT(error, HasSubstr("row " + std::to_string(row)));
        else
          EXPECT_EQ(error, "no error");
      }
    }
}

TEST(DenseFile, OfNoRowsOrNoColumnsIsRead) {
  for (const auto& [rows, cols] : {std::pair{0, 7}, {9, 0}, {0, 0}}) {
    const DenseFile file = open(make_dense_file(rows, cols), rows, cols);
    for (std::int64_t row = 0; row < rows; ++row) file.check(row);
    EXPECT_EQ(file.n_rows(), rows);
  }
}

TEST(DenseFile, RefusesATableThatIsNotTheManifests) {
  const DenseFile file(io::make_memory_source("a", make_dense_file(3, 4)), 3, 4,
                       {.check_identity = [](std::uint64_t) {
                         throw_error(ErrorKind::kCorruptData, "a", "another file");
                       }});
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([&] { file.check(1); }, ErrorKind::kCorruptData),
                HasSubstr("another file"));
}

}  // namespace
}  // namespace cellfeed::format::shard
