// Records on every instruction set of this machine: the same bytes out of the same row, and the
// row back out of them, whatever the type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "cellfeed/format/shard/record/record_test_rows.h"
#include "cellfeed/testing/each_target.h"

namespace cellfeed::format::shard {
namespace {

using cellfeed::testing::for_each_target;

// What the tests of kernels run on, said once: a loop over nothing would pass too.
TEST(Targets, AreThoseOfThisMachine) {
  std::set<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    names.insert(hwy::TargetName(target));
  std::set<std::string> wanted;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) wanted.insert({"SSSE3", "SSE4"});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) wanted.insert("AVX2");
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    wanted.insert("AVX3");
#elif defined(__aarch64__)
  wanted.insert("NEON");
#endif
  EXPECT_THAT(names, ::testing::IsSupersetOf(wanted));
  EXPECT_FALSE(names.empty());
}

enum class Values { kCounts, kHeavyTailed, kFewDistinct, kAnyBits };

template <typename T>
Row<T> random_row(std::size_t nnz, Values kind, std::mt19937_64& random) {
  Row<T> row{random_indices(nnz, kColumns, random), std::vector<T>(nnz)};
  for (T& value : row.values) {
    const std::uint64_t bits = random() >> 1;  // int64 is the widest output
    if (kind == Values::kAnyBits)
      std::memcpy(&value, &bits, sizeof(value));
    else if (kind == Values::kFewDistinct)
      value = static_cast<T>(static_cast<T>(bits % 5 + 1) / T{4});
    else
      value = static_cast<T>(std::min<std::int64_t>(heavy_tailed_count(random),
                                                    kind == Values::kCounts ? 100 : 1'000'000));
  }
  return row;
}

template <typename T>
class RecordTargets : public ::testing::Test {};
using RecordTargetTypes =
    ::testing::Types<float, double, std::int32_t, std::int64_t, std::uint32_t>;
TYPED_TEST_SUITE(RecordTargets, RecordTargetTypes);

template <typename T>
void expect_back(const Row<T>& row, const Packed& packed) {
  using Out = OutType<T>;
  const std::vector<Out> expected(row.values.begin(), row.values.end());
  for (const OverrunRoom room : {OverrunRoom::kNone, OverrunRoom::k64Bytes}) {
    const auto back =
        unpack<Out>(packed, row.indices.size(), kColumns, dtype_of<T>(), Casting::kExact, room);
    ASSERT_EQ(back.indices, row.indices);
    ASSERT_TRUE(same_bits(back.values, expected));
  }
}

TYPED_TEST(RecordTargets, EachPacksTheSameBytesAndUnpacksThem) {
  std::mt19937_64 random(8);
  for (const std::size_t nnz :
       {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 100, 127, 128, 129, 300, 1000, 6000})
    for (const Values kind :
         {Values::kCounts, Values::kHeavyTailed, Values::kFewDistinct, Values::kAnyBits}) {
      SCOPED_TRACE(::testing::Message() << nnz << " entries, kind " << static_cast<int>(kind));
      const auto row = random_row<TypeParam>(nnz, kind, random);
      const Packed expected = pack(row);
      for_each_target([&] {
        const Packed packed = pack(row);
        ASSERT_EQ(packed.bytes, expected.bytes);
        expect_back(row, packed);
      });
      if (this->HasFatalFailure()) return;
    }
}

// Log-normalised values take the path that divides or multiplies codes by a factor.
TEST(RecordTargets, EachUnpacksScaledCounts) {
  std::mt19937_64 random(9);
  for (const float factor : {0.37f, 1e4f / 2917, 1.0f / 3}) {
    auto row = random_row<float>(1000, Values::kCounts, random);
    for (float& value : row.values) value *= factor;
    const Packed packed = pack(row);
    for_each_target([&] { expect_back(row, packed); });
  }
}

}  // namespace
}  // namespace cellfeed::format::shard
