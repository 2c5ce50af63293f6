// Rows moved by maps of every kind, against entries sorted by their new columns.
#include "cellfeed/transform/select_genes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/each_target.h"
#include "cellfeed/transform/column_map.h"
#include "cellfeed/transform/simd/reorder_row.h"

namespace cellfeed::transform {
namespace {

using cellfeed::testing::for_each_target;

constexpr std::size_t kGuard = 32;  // elements that must stay as they are, on either side

enum class Order { kKept, kReversed, kShuffled };

// Places in [0, n_to) for n_from columns, of which a share is kept.
std::vector<std::int32_t> random_places(std::size_t n_from, std::size_t n_to, double keep,
                                        Order order, std::mt19937& random) {
  std::vector<std::int32_t> all(n_to), places;
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), std::back_inserter(places), n_from, random);
  if (order == Order::kReversed) std::reverse(places.begin(), places.end());
  if (order == Order::kShuffled) std::shuffle(places.begin(), places.end(), random);
  for (auto& place : places)
    if (!std::bernoulli_distribution(keep)(random)) place = -1;
  return places;
}

// Any bits, also those that are no numbers; compared as they are.
template <typename T>
struct Entries {
  std::vector<std::int32_t> columns;
  std::vector<T> values;
};

template <typename T>
Entries<T> random_entries(std::size_t n, std::size_t n_cols, std::mt19937& random) {
  Entries<T> entries;
  std::vector<std::int32_t> all(n_cols);
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), std::back_inserter(entries.columns), n, random);
  for (std::size_t i = 0; i < entries.columns.size(); ++i)
    entries.values.push_back(static_cast<T>(random() * 0x1'0000'0001ULL));
  return entries;
}

template <typename T>
Entries<T> guarded(const Entries<T>& entries) {
  Entries<T> out{std::vector<std::int32_t>(kGuard, -7), std::vector<T>(kGuard, T{77})};
  out.columns.insert(out.columns.end(), entries.columns.begin(), entries.columns.end());
  out.values.insert(out.values.end(), entries.values.begin(), entries.values.end());
  out.columns.insert(out.columns.end(), kGuard, -7);
  out.values.insert(out.values.end(), kGuard, T{77});
  return out;
}

template <typename T>
void expect_remapped(const Entries<T>& entries, const ColumnMap& map,
                     EntryOrder order = EntryOrder::kIncreasing) {
  std::map<std::int32_t, T> expected;
  for (std::size_t i = 0; i < entries.columns.size(); ++i)
    if (const auto place = map.places[entries.columns[i]]; place >= 0)
      expected[place] = entries.values[i];
  Entries<T> row_at = guarded(entries);
  const std::size_t n = entries.columns.size();
  Row row{row_at.columns.data() + kGuard,
          row_at.values.data() + kGuard,
          sizeof(T) == 4 ? DType::kF32 : DType::kF64,
          static_cast<std::int32_t>(n),
          0,
          0};
  remap_row(row, map, order);
  ASSERT_EQ(row.size, static_cast<std::int32_t>(expected.size()));
  if (order == EntryOrder::kAny) {
    for (std::size_t i = kGuard; i < kGuard + expected.size(); ++i)
      ASSERT_EQ(expected.at(row_at.columns[i]), row_at.values[i]) << "entry " << i - kGuard;
    ASSERT_EQ(std::set(row.indices, row.indices + row.size).size(), expected.size());
    return;
  }
  std::size_t at = kGuard;
  for (const auto& [column, value] : expected) {
    ASSERT_EQ(row_at.columns[at], column) << "entry " << at - kGuard;
    ASSERT_EQ(row_at.values[at], value) << "entry " << at - kGuard;
    ++at;
  }
  for (std::size_t g = 0; g < kGuard; ++g)
    for (const std::size_t side : {g, kGuard + n + g}) {
      ASSERT_EQ(row_at.columns[side], -7) << "written outside of the row: " << side;
      ASSERT_EQ(row_at.values[side], T{77}) << "written outside of the row: " << side;
    }
}

template <typename T>
class RemapRow : public ::testing::Test {};
using Words = ::testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(RemapRow, Words);

// Rows of very different lengths one after the other, so that what one leaves behind would show.
TYPED_TEST(RemapRow, GivesEveryEntryItsColumnInOrder) {
  for_each_target([] {
    std::mt19937 random(11);
    for (const std::size_t n_from : {1, 2, 63, 64, 65, 700, 3000})
      for (const std::size_t n_to : {n_from, n_from + 1, 2 * n_from + 63})
        for (const auto order : {Order::kKept, Order::kReversed, Order::kShuffled})
          for (const double keep : {0.0, 0.1, 0.5, 0.6, 0.98, 1.0}) {
            const auto places = random_places(n_from, n_to, keep, order, random);
            const ColumnMap map(places);
            const auto narrow = narrow_places(places, map.traits);
            ASSERT_EQ(narrow.empty(), !map.traits.keeps_all);
            const ColumnMap narrow_map(places, map.traits, narrow);
            for (const std::size_t n :
                 {n_from, std::size_t{0}, n_from / 20, std::size_t{1}, n_from / 2, n_from}) {
              SCOPED_TRACE(::testing::Message()
                           << n << " of " << n_from << " columns to " << n_to << ", kept " << keep
                           << ", order " << static_cast<int>(order));
              const auto entries = random_entries<TypeParam>(n, n_from, random);
              expect_remapped(entries, map);
              expect_remapped(entries, map, EntryOrder::kAny);
              expect_remapped(entries, narrow_map);
              expect_remapped(entries, narrow_map, EntryOrder::kAny);
              if (::testing::Test::HasFatalFailure()) return;
            }
          }
  });
}

TEST(ColumnMap, SaysWhatRowsMustGoThrough) {
  const auto traits = [](std::vector<std::int32_t> places) { return ColumnMap(places).traits; };
  const auto same = traits({0, 1, 2});
  EXPECT_TRUE(same.keeps_order && same.keeps_all && same.keeps_most);
  EXPECT_EQ(same.n_cols, 3);
  const auto gaps = traits({-1, 4, -1, 9, 11});
  EXPECT_TRUE(gaps.keeps_order && gaps.keeps_most);
  EXPECT_FALSE(gaps.keeps_all);
  EXPECT_EQ(gaps.n_cols, 12);
  const auto swapped = traits({8, -1, 7, 3});
  EXPECT_FALSE(swapped.keeps_order || swapped.keeps_all);
  EXPECT_TRUE(swapped.keeps_most);
  EXPECT_EQ(swapped.n_cols, 9);
  const auto half = traits({5, -1, 0, -1});
  EXPECT_FALSE(half.keeps_order || half.keeps_most);
  const auto nothing = traits({-1, -1});
  EXPECT_TRUE(nothing.keeps_order);
  EXPECT_FALSE(nothing.keeps_all || nothing.keeps_most);
  EXPECT_EQ(nothing.n_cols, 0);
  EXPECT_TRUE(ColumnMap().empty());
}

TEST(ColumnMap, PlacesAreNarrowUpToTheLastThatTwoBytesHold) {
  const auto narrow = [](const std::vector<std::int32_t>& places) {
    return narrow_places(places, find_traits(places));
  };
  EXPECT_EQ(narrow({65535, 0}), (std::vector<std::uint16_t>{65535, 0}));
  EXPECT_TRUE(narrow({65536, 0}).empty());
  EXPECT_TRUE(narrow({1, -1}).empty());
}

TEST(ReorderRow, RefusesValuesOfOtherWidths) {
  std::int32_t index = 0;
  std::uint64_t value = 0;
  const std::uint16_t narrow = 0;
  const std::int32_t* none = nullptr;
  EXPECT_THROW(reorder_row(&index, &value, 2, 1, none, 1), Error);
  EXPECT_THROW(reorder_row(&index, &value, 2, 1, &narrow, 1), Error);
}

}  // namespace
}  // namespace cellfeed::transform
