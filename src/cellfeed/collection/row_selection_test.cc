#include "cellfeed/collection/row_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {
namespace {

std::vector<std::int64_t> read(const RowSelection& selection) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < selection.size(); ++i) rows.push_back(selection.row(i));
  return rows;
}

TEST(RowSelection, GivesTheRowsInTheirOrder) {
  for (const std::vector<std::int64_t>& rows : {std::vector<std::int64_t>{0},
                                                {9},
                                                {0, 1, 2, 3},
                                                {3, 4, 8, 9},
                                                {9, 8, 7},
                                                {5, 5, 5},
                                                {8, 9, 0, 1, 0, 1}})
    EXPECT_EQ(read({rows, 10}), rows);
}

TEST(RowSelection, GivesRandomRowsOfAnyShape) {
  std::mt19937_64 random(0);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 5000);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    if (round % 3 == 0) std::shuffle(rows.begin(), rows.end(), random);
    // Runs that are dense here and thin there.
    const std::uint64_t keep = 1 + random() % 100;
    std::erase_if(rows, [&](std::int64_t row) {
      return random() % 100 >= (row < n / 2 ? keep : std::max<std::uint64_t>(1, keep / 20));
    });
    if (rows.empty()) rows = {0};
    const RowSelection selection(rows, n);
    EXPECT_EQ(read(selection), rows);
    EXPECT_LE(selection.n_runs(), selection.size());
  }
}

TEST(RowSelection, KeepsRunsAndNotRows) {
  std::vector<std::int64_t> rows(100'000);
  std::iota(rows.begin(), rows.end(), 7);
  EXPECT_EQ(RowSelection(rows, 1'000'000).n_runs(), 1);
}

TEST(RowSelection, HashesByRowsAndOrder) {
  const auto hash = [](const std::vector<std::int64_t>& rows) {
    return RowSelection(rows, 100).hash();
  };
  EXPECT_EQ(hash({1, 2, 5}), hash({1, 2, 5}));
  EXPECT_NE(hash({1, 2, 5}), hash({1, 5, 2}));
  EXPECT_NE(hash({1, 2, 5}), hash({1, 2, 6}));
  EXPECT_NE(hash({1, 2}), hash({1, 2, 3}));
}

TEST(RowSelection, RefusesRowsThatAreNotThere) {
  const auto make = [](const std::vector<std::int64_t>& rows) { RowSelection(rows, 10); };
  EXPECT_THROW(make({}), Error);
  EXPECT_THROW(make({10}), Error);
  EXPECT_THROW(make({0, -1}), Error);
}

}  // namespace
}  // namespace cellfeed::collection
