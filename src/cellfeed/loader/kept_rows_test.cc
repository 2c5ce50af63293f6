// Slices of fewer genes find their places whatever the order they come in, against prefix sums.
#include "cellfeed/loader/kept_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace cellfeed::loader {
namespace {

// Row `position` of a batch: its entries are told from all others.
struct KeptRow {
  std::vector<std::int32_t> indices;
  std::vector<float> values;
};
KeptRow row_at(std::int64_t position) {
  KeptRow row;
  for (std::int32_t k = 0; k < position * 7 % 11; ++k) {
    row.indices.push_back(static_cast<std::int32_t>(position) * 100 + k);
    row.values.push_back(static_cast<float>(position) + 0.01f * static_cast<float>(k));
  }
  return row;
}

std::int64_t n_rows_of(std::int64_t n_rows, std::size_t slice) {
  return std::min(kSliceRows, n_rows - static_cast<std::int64_t>(slice) * kSliceRows);
}

// The rows of one slice, added in random order, some put into its memory before.
std::unique_ptr<KeptRows> slice_of(std::int64_t n_rows, std::size_t slice, std::mt19937& random) {
  const std::int64_t first = static_cast<std::int64_t>(slice) * kSliceRows;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(n_rows_of(n_rows, slice)));
  std::iota(positions.begin(), positions.end(), first);
  std::shuffle(positions.begin(), positions.end(), random);
  auto kept = std::make_unique<KeptRows>();
  kept->reset(first, std::ssize(positions), 10 * std::ssize(positions), DType::kF32);
  for (const std::int64_t position : positions) {
    KeptRow own = row_at(position);
    transform::Row row{.indices = own.indices.data(),
                       .values = own.values.data(),
                       .dtype = DType::kF32,
                       .size = static_cast<std::int32_t>(own.indices.size())};
    if (position % 2 == 0) {
      const transform::RowRoom room = kept->next();
      std::ranges::copy(own.indices, room.indices);
      std::ranges::copy(own.values, static_cast<float*>(room.values));
      row.indices = room.indices;
      row.values = room.values;
    }
    kept->add(position, row);
  }
  return kept;
}

void expect_all_rows(const matrix::CsrBlock& block) {
  std::int64_t begin = 0;
  const auto& values = std::get<matrix::Buffer<float>>(block.values);
  for (std::int64_t i = 0; i < block.n_rows; ++i) {
    const KeptRow row = row_at(i);
    ASSERT_EQ(block.indptr[i], begin) << "row " << i;
    ASSERT_TRUE(std::equal(row.indices.begin(), row.indices.end(), block.indices.data() + begin));
    ASSERT_TRUE(std::equal(row.values.begin(), row.values.end(), values.data() + begin));
    begin += std::ssize(row.indices);
  }
}

TEST(KeptRows, AreBackToBackWhateverTheOrderTheirSlicesComeIn) {
  constexpr std::int64_t kRows = 4 * kSliceRows + 5;
  std::mt19937 random(3);
  std::vector<std::size_t> slices{0, 1, 2, 3, 4};
  do {
    const bool past_caches = slices[0] % 2 == 0;
    matrix::CsrBlock block{kRows, 1, matrix::Buffer<std::int64_t>(kRows + 1),
                           matrix::Buffer<std::int32_t>(10 * kRows),
                           matrix::make_value_buffer(DType::kF32, 10 * kRows)};
    SliceOrder order;
    order.set_room(10 * kRows);
    std::size_t n_placed = 0;
    for (const std::size_t slice : slices) {
      for (const SliceOrder::Placed& placed : order.place(slice, slice_of(kRows, slice, random))) {
        placed.rows->copy_to(block, placed.begin, past_caches);
        ++n_placed;
      }
      if (n_placed == 0) {
        ASSERT_EQ(order.end(), 0) << "a slice had a place before the first";
      }
    }
    ASSERT_EQ(n_placed, slices.size());
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < kRows; ++i) total += std::ssize(row_at(i).indices);
    ASSERT_EQ(order.end(), total);
    expect_all_rows(block);
  } while (std::ranges::next_permutation(slices).found);
}

// As the loader's threads do: each takes the next slice, and copies what has a place then.
TEST(KeptRows, OfManyThreadsAreThoseOfOne) {
  constexpr std::int64_t kRows = 100 * kSliceRows + 1;
  for (unsigned round = 0; round < 5; ++round) {
    matrix::CsrBlock block{kRows, 1, matrix::Buffer<std::int64_t>(kRows + 1),
                           matrix::Buffer<std::int32_t>(10 * kRows),
                           matrix::make_value_buffer(DType::kF32, 10 * kRows)};
    SliceOrder order;
    order.set_room(10 * kRows);
    KeptRowsPool pool(2);
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(10 * round + t);
        for (std::size_t slice = next++; slice < 101; slice = next++) {
          pool.give_back(pool.take());
          for (SliceOrder::Placed& placed : order.place(slice, slice_of(kRows, slice, random))) {
            placed.rows->copy_to(block, placed.begin, t % 2 == 0);
            pool.give_back(std::move(placed.rows));
          }
        }
      });
    threads.clear();
    expect_all_rows(block);
  }
}

TEST(KeptRows, OfASliceThatFailedNobodyWaits) {
  std::mt19937 random(4);
  SliceOrder order;
  order.set_room(1000);
  EXPECT_EQ(order.place(0, slice_of(3 * kSliceRows, 0, random)).size(), 1u);
  EXPECT_TRUE(order.place(2, slice_of(3 * kSliceRows, 2, random)).empty());
}

TEST(KeptRows, ThatTheBatchHasNoRoomForComeLast) {
  constexpr std::int64_t kRows = 3 * kSliceRows;
  std::mt19937 random(6);
  SliceOrder order;
  const std::int64_t first = slice_of(kRows, 0, random)->size();
  order.set_room(first + 1);
  EXPECT_EQ(order.place(0, slice_of(kRows, 0, random)).size(), 1u);
  EXPECT_TRUE(order.place(1, slice_of(kRows, 1, random)).empty());
  EXPECT_TRUE(order.place(2, slice_of(kRows, 2, random)).empty());
  EXPECT_EQ(order.end(), first);
  const auto rest = order.place_rest();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].begin, first);
  EXPECT_EQ(rest[1].begin, first + rest[0].rows->size());
  EXPECT_EQ(order.end(), rest[1].begin + rest[1].rows->size());
}

TEST(KeptRowsPool, GivesBackWhatItWasGiven) {
  KeptRowsPool pool(1);
  auto first = pool.take();
  auto second = pool.take();
  const KeptRows* known = first.get();
  pool.give_back(std::move(first));
  pool.give_back(std::move(second));  // there is no room for it
  const auto again = pool.take();
  EXPECT_EQ(again.get(), known);
  EXPECT_NE(pool.take().get(), known);
}

// Every position is in the slice of its number, once, whatever the stores.
TEST(Slices, CutByPositionAreOfConsecutiveRowsOfTheBatch) {
  std::mt19937 random(5);
  for (const std::int64_t n_rows : {1, 63, 64, 65, 200, 640})
    for (const std::int32_t n_parts : {1, 3, 50}) {
      std::vector<std::vector<std::int64_t>> of_part(static_cast<std::size_t>(n_parts));
      for (std::int64_t i = 0; i < n_rows; ++i) of_part[random() % of_part.size()].push_back(i);
      std::vector<std::int64_t> positions{-7};  // of another batch
      std::vector<RowsByStore::Piece> batch;
      for (std::int32_t part = 0; part < n_parts; ++part) {
        const auto begin = std::ssize(positions);
        positions.insert(positions.end(), of_part[part].begin(), of_part[part].end());
        if (!of_part[part].empty()) batch.push_back({part, begin, std::ssize(positions)});
      }
      std::vector<RowsByStore::Piece> pieces(3);  // of another batch
      std::vector<Slice> slices;
      cut_by_position(1, batch, positions, pieces, slices);
      std::vector<int> seen(static_cast<std::size_t>(n_rows));
      ASSERT_EQ(std::ssize(slices), (n_rows + kSliceRows - 1) / kSliceRows);
      std::size_t next = 3;
      for (std::size_t s = 0; s < slices.size(); ++s) {
        EXPECT_EQ(slices[s].number, s);
        EXPECT_EQ(slices[s].begin, next);
        for (next = slices[s].begin; next < slices[s].end; ++next)
          for (std::int64_t i = pieces[next].begin; i < pieces[next].end; ++i) {
            ++seen[static_cast<std::size_t>(positions[i])];
            EXPECT_EQ(positions[i] / kSliceRows, static_cast<std::int64_t>(s));
          }
      }
      EXPECT_EQ(next, pieces.size());
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    }
}

}  // namespace
}  // namespace cellfeed::loader
