// Rows of which a store keeps some columns, beside rows decoded whole.
#include "cellfeed/format/chosen_columns.h"

#include <gtest/gtest.h>

#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/row_store_conformance.h"

namespace cellfeed::format {
namespace {

TEST(ChosenColumnsTest, KeepsTheEntriesOfItsColumnsInEveryType) {
  constexpr std::int64_t kCols = 40;
  const matrix::CsrBlock block =
      testing::random_csr({.n_rows = 30, .n_cols = kCols, .density = 0.4});
  const auto store = memory::make_memory_store(memory::make_stored_csr(block));
  std::vector<std::int32_t> columns(kCols, -1);
  std::int32_t n_kept = 0;
  for (std::size_t i = 0; i < kCols; ++i)
    if (i % 3 != 1) columns[i] = n_kept++;
  std::vector<std::int64_t> rows{7, 0, 29, 7, 11};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64})
    for (const bool past_caches : {false, true}) {
      const auto whole = testing::decode_rows(*fetch_rows(*store, rows), dtype);
      const auto chosen = choose_columns(fetch_rows(*store, rows), columns);
      testing::DecodedRows expected;
      for (std::size_t row = 0; row < rows.size(); ++row) {
        expected.indices.emplace_back();
        expected.values.emplace_back();
        for (std::size_t i = 0; i < whole.indices[row].size(); ++i) {
          const std::int32_t column = columns[static_cast<std::size_t>(whole.indices[row][i])];
          if (column < 0) continue;
          expected.indices.back().push_back(column);
          expected.values.back().push_back(whole.values[row][i]);
        }
      }
      EXPECT_EQ(testing::decode_rows(*chosen, dtype, Casting::kExact, 2, past_caches), expected);
    }
}

}  // namespace
}  // namespace cellfeed::format
