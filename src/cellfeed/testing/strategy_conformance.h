// Conformance of a sampling::Strategy: what every order promises, checked on one made by the
// caller.
//
//   TEST(MyStrategy, Conforms) { testing::check_strategy([] { return
//   std::make_shared<MyStrategy>(...); }, {}); }
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/sampling/strategy.h"

namespace cellfeed::testing {

struct StrategyFacts {
  bool is_random = true;                         // another seed or epoch gives another order
  bool draws_each_once = false;                  // the order is a permutation of expected_rows
  std::vector<std::int64_t> expected_rows = {};  // sorted; used with draws_each_once
};

// Rows 0 to n - 1, as expected_rows of an order over all of them.
inline std::vector<std::int64_t> rows_up_to(std::int64_t n) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

using MakeStrategy = std::function<std::shared_ptr<const sampling::Strategy>()>;

inline std::vector<std::int64_t> order_of(const sampling::Strategy& strategy,
                                          const sampling::OrderKey& key, std::int64_t begin = 0,
                                          std::int64_t stride = 1, std::int64_t count = -1) {
  if (count < 0) count = (strategy.length(key) - begin + stride - 1) / stride;
  std::vector<std::int64_t> out(static_cast<std::size_t>(count), -7);
  strategy.samples(key, begin, stride, out);
  return out;
}

inline std::vector<sampling::OrderKey> conformance_keys() {
  return {{.seed = 0, .epoch = 0, .step_samples = 1, .fetch_samples = 1},
          {.seed = 1, .epoch = 2, .step_samples = 4, .fetch_samples = 12},
          {.seed = ~std::uint64_t{0}, .epoch = 1, .step_samples = 7, .fetch_samples = 7},
          {.seed = 42, .epoch = 0, .step_samples = 64, .fetch_samples = std::int64_t{1} << 40}};
}

inline void check_rows(const sampling::Strategy& strategy, const sampling::OrderKey& key,
                       const StrategyFacts& facts) {
  std::vector<std::int64_t> order = order_of(strategy, key);
  for (const std::int64_t sample : order) {
    const std::int64_t row = sample < 0 ? ~sample : sample;
    ASSERT_LT(row, strategy.n_rows());
  }
  if (!facts.draws_each_once) return;
  std::erase_if(order, [](std::int64_t s) { return s < 0; });
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, facts.expected_rows);
}

// Any begin, stride and length, in any order of calls, reads the same order.
inline void check_random_access(const sampling::Strategy& strategy, const sampling::OrderKey& key) {
  const std::vector<std::int64_t> order = order_of(strategy, key);
  const auto n = static_cast<std::int64_t>(order.size());
  for (const std::int64_t stride : {1, 2, 3, 5, 64, 1000}) {
    for (std::int64_t begin = std::min<std::int64_t>(stride, n) - 1; begin >= 0;
         begin -= 1 + stride / 4) {
      const auto part = order_of(strategy, key, begin, stride);
      for (std::size_t i = 0; i < part.size(); ++i) {
        ASSERT_EQ(part[i],
                  order[static_cast<std::size_t>(begin) + i * static_cast<std::size_t>(stride)])
            << "begin " << begin << " stride " << stride << " i " << i;
      }
    }
  }
  for (std::int64_t position = n - 1; position >= 0; position -= 1 + n / 50) {
    ASSERT_EQ(order_of(strategy, key, position, 1, 1).front(),
              order[static_cast<std::size_t>(position)]);
  }
  EXPECT_TRUE(order_of(strategy, key, 0, 1, 0).empty());
}

inline void check_threads(const sampling::Strategy& strategy, const sampling::OrderKey& key) {
  const std::vector<std::int64_t> order = order_of(strategy, key);
  std::vector<std::vector<std::int64_t>> seen(4);
  std::vector<std::thread> threads;
  for (auto& mine : seen) threads.emplace_back([&] { mine = order_of(strategy, key); });
  for (auto& thread : threads) thread.join();
  for (const auto& mine : seen) EXPECT_EQ(mine, order);
}

inline void check_strategy(const MakeStrategy& make, const StrategyFacts& facts) {
  const auto strategy = make();
  const auto twin = make();
  EXPECT_FALSE(strategy->name().empty());
  EXPECT_GT(strategy->n_rows(), 0);
  EXPECT_GT(strategy->block_size(), 0);
  EXPECT_EQ(strategy->fingerprint(), twin->fingerprint());
  for (sampling::OrderKey key : conformance_keys()) {
    SCOPED_TRACE("seed " + std::to_string(key.seed) + " epoch " + std::to_string(key.epoch) +
                 " step " + std::to_string(key.step_samples) + " fetch " +
                 std::to_string(key.fetch_samples));
    ASSERT_GT(strategy->length(key), 0);
    check_rows(*strategy, key, facts);
    check_random_access(*strategy, key);
    const auto order = order_of(*strategy, key);
    EXPECT_EQ(order, order_of(*twin, key)) << "two strategies made alike differ";
    if (!facts.is_random) continue;
    sampling::OrderKey other = key;
    other.seed ^= 1;
    EXPECT_NE(order, order_of(*strategy, other)) << "the seed changes nothing";
    other = key;
    other.epoch += 1;
    EXPECT_NE(order, order_of(*strategy, other)) << "the epoch changes nothing";
  }
  check_threads(*strategy, conformance_keys()[1]);
}

}  // namespace cellfeed::testing
