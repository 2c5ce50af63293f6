// Permutations: bijective at every size, uniform, pinned by golden vectors.
#include "cellfeed/sampling/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cellfeed/testing/chi_square.h"

namespace cellfeed::sampling {
namespace {

using ::cellfeed::testing::chi_square;
using ::cellfeed::testing::chi_square_limit;

std::vector<std::int64_t> values_of(const Permutation& p, std::int64_t n) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = p(i);
  return out;
}

Permutation make(std::uint64_t seed, std::int64_t n, std::uint64_t epoch = 0) {
  return Permutation(RandomStream(seed, epoch, Purpose::kBlockOrder), 0, n);
}

TEST(Permutation, IsABijectionAtEverySize) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n <= 300; ++n) sizes.push_back(n);
  for (const std::int64_t n :
       {65535, 65536, 65537, 65540, 131071, 131072, 131073, 262143, 262145, 999983}) {
    sizes.push_back(n);
  }
  for (const std::int64_t n : sizes) {
    auto values = values_of(make(3, n), n);
    std::sort(values.begin(), values.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i) << n;
  }
}

TEST(Permutation, ThePreimageIsTheInverse) {
  for (const std::int64_t n : {1, 2, 3, 1000, 65536, 65537, 131073, 999983}) {
    const Permutation p = make(7, n);
    const std::int64_t step = n <= 65536 ? n / 50 + 1 : 1;
    for (std::int64_t i = 0; i < n; i += step) ASSERT_EQ(p.preimage(p(i)), i) << n;
  }
  for (const std::int64_t n : {std::int64_t{10'000'000'019}, Permutation::kMaxSize}) {
    const Permutation p = make(8, n);
    for (std::int64_t i = 0; i < n; i += n / 1000) ASSERT_EQ(p.preimage(p(i)), i) << n;
  }
}

TEST(Permutation, MembersOfAGroupAreABijectionAboveTheirOwnLimit) {
  for (std::int64_t n = 4090; n < 4110; ++n) {
    const Permutation p(RandomStream(1, 0, Purpose::kGroupMember), 3, n,
                        Permutation::kExplicitMembers);
    auto values = values_of(p, n);
    std::sort(values.begin(), values.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  }
}

// The smallest Feistel network: where position 0, 1 and n - 1 go, and how far apart 0 and 1 land,
// over 50,000 seeds in 4099 / 17 bins. 4 tests: false-alarm rate 1e-6.
TEST(Permutation, TheSmallestNetworkIsUniform) {
  constexpr std::int64_t n = 4097;
  constexpr std::int64_t kSeeds = 50000;
  std::vector<std::vector<std::int64_t>> counts(4, std::vector<std::int64_t>(241));
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Permutation p(RandomStream(seed, 0, Purpose::kGroupMember), 0, n,
                        Permutation::kExplicitMembers);
    const std::array<std::int64_t, 4> values = {p(0), p(1), p(n - 1), (p(1) - p(0) + n) % n};
    for (std::size_t t = 0; t < 4; ++t) ++counts[t][static_cast<std::size_t>(values[t] / 17)];
    ASSERT_NE(values[3], 0);
  }
  for (std::size_t t = 0; t < 4; ++t) {
    EXPECT_LT(chi_square(counts[t], kSeeds / 241.0), chi_square_limit(240)) << t;
  }
}

TEST(Permutation, StaysInsideHugeDomainsAndHitsNothingTwice) {
  for (const std::int64_t n :
       {std::int64_t{10'000'000'000}, (std::int64_t{1} << 40) + 1, (std::int64_t{1} << 61) - 1,
        (std::int64_t{1} << 62) - 1, Permutation::kMaxSize}) {
    const Permutation p = make(9, n);
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < 2000; ++i) {
      for (const std::int64_t at : {i, n - 1 - i, n / 2 + i}) values.push_back(p(at));
    }
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), n);
    std::sort(values.begin(), values.end());
    EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
  }
}

// Every position x value table and every table of ordered pairs, for sizes 2 to 10 over 20,000
// seeds: 2 tests a size, 18 in all, false-alarm rate about 5e-6 together.
TEST(Permutation, SmallOnesAreUniformInPositionAndPairs) {
  constexpr std::int64_t kSeeds = 20000;
  for (std::int64_t n = 2; n <= 10; ++n) {
    std::vector<std::int64_t> cells(static_cast<std::size_t>(n * n));
    std::vector<std::int64_t> pairs(static_cast<std::size_t>(n * n));
    for (std::int64_t seed = 0; seed < kSeeds; ++seed) {
      const auto v = values_of(make(static_cast<std::uint64_t>(seed), n), n);
      for (std::int64_t i = 0; i < n; ++i)
        ++cells[static_cast<std::size_t>(i * n + v[static_cast<std::size_t>(i)])];
      ++pairs[static_cast<std::size_t>(v[0] * n + v[1])];
    }
    // Row and column sums are fixed: (n-1)^2 degrees of freedom, and the statistic is scaled by
    // (n-1)/n.
    const double dn = static_cast<double>(n);
    EXPECT_LT(chi_square(cells, kSeeds / dn) * (dn - 1) / dn, chi_square_limit((dn - 1) * (dn - 1)))
        << n;
    std::vector<std::int64_t> off_diagonal;
    for (std::int64_t i = 0; i < n * n; ++i) {
      if (i / n != i % n) {
        off_diagonal.push_back(pairs[static_cast<std::size_t>(i)]);
      } else {
        EXPECT_EQ(pairs[static_cast<std::size_t>(i)], 0);
      }
    }
    EXPECT_LT(chi_square(off_diagonal, kSeeds / (dn * (dn - 1))),
              chi_square_limit(dn * (dn - 1) - 1))
        << n;
  }
}

// All 720 permutations of 6 elements are equally likely. False-alarm rate 3e-7.
TEST(Permutation, EveryPermutationOfSixIsEquallyLikely) {
  std::map<std::vector<std::int64_t>, std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 72000; ++seed) ++seen[values_of(make(seed, 6), 6)];
  ASSERT_EQ(seen.size(), 720u);
  std::vector<std::int64_t> counts;
  for (const auto& [permutation, count] : seen) counts.push_back(count);
  EXPECT_LT(chi_square(counts, 100), chi_square_limit(719));
}

// Feistel sizes: the values of 2^18 positions in 64 bins each way, and the differences of
// neighbours modulo n in 256 bins. Three sizes, two tests: false-alarm rate 2e-6.
TEST(Permutation, LargeOnesLookRandom) {
  for (const std::int64_t n :
       {std::int64_t{262'147}, std::int64_t{10'000'000'000}, std::int64_t{1} << 52}) {
    const Permutation p = make(5, n);
    constexpr std::int64_t kDraws = 1 << 18;
    std::vector<std::int64_t> joint(64 * 64);
    std::vector<std::int64_t> steps(256);
    const auto bin = [n](std::int64_t x, std::int64_t bins) {
      return static_cast<std::size_t>(static_cast<double>(x) / static_cast<double>(n) *
                                      static_cast<double>(bins));
    };
    std::int64_t previous = p(n - 1);
    for (std::int64_t i = 0; i < kDraws; ++i) {
      const std::int64_t value = p(i);
      ++joint[static_cast<std::size_t>(i * 64 / kDraws) * 64 + bin(value, 64)];
      ++steps[bin((value - previous + n) % n, 256)];
      previous = value;
    }
    EXPECT_LT(chi_square(joint, kDraws / 4096.0), chi_square_limit(64 * 63)) << n;
    EXPECT_LT(chi_square(steps, kDraws / 256.0), chi_square_limit(255)) << n;
  }
}

// The number of fixed points of two permutations composed is near Poisson(1); 400 pairs have a sum
// of 400 +- 20, and 6 sigma is 120: false-alarm rate about 1e-8.
TEST(Permutation, EpochsAreIndependent) {
  constexpr std::int64_t n = 1000;
  std::int64_t agreements = 0;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    const auto a = values_of(make(7, n, epoch), n);
    const auto b = values_of(make(7, n, epoch + 1), n);
    for (std::size_t i = 0; i < a.size(); ++i) agreements += a[i] == b[i] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(agreements), 400, 120);
}

TEST(RandomStream, PhiloxMatchesThePublishedVector) {
  // Random123's kat_vectors, philox4x32 of 10 rounds with counter and key zero: 6627e8d5 e169c58d
  // bc57ac4c 9b00dbd8.
  EXPECT_EQ(RandomStream(0, 0, Purpose{0}).key(), 0xe169c58d6627e8d5u);
}

TEST(RandomStream, BoundedIsUniformWhereRejectionMatters) {
  // A range of 3 * 2^62 rejects a quarter of the draws; without rejection a third of [0, range)
  // would be doubled.
  const RandomStream stream(1, 0, Purpose::kBlockDraw);
  std::vector<std::int64_t> thirds(3);
  for (std::uint64_t i = 0; i < 30000; ++i) {
    ++thirds[static_cast<std::size_t>(stream.bounded(i, std::uint64_t{3} << 62) >> 62)];
  }
  EXPECT_LT(chi_square(thirds, 10000), chi_square_limit(2));
  EXPECT_EQ(stream.bounded(0, 1), 0u);
}

}  // namespace
}  // namespace cellfeed::sampling
