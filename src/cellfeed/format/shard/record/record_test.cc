// Records: every row comes back bit by bit, in the bytes that docs/format/record.md promises.
#include "cellfeed/format/shard/record/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/record/record_test_rows.h"

namespace cellfeed::format::shard {
namespace {

template <typename T>
void expect_round_trip(const Row<T>& row, std::int64_t n_cols = kColumns) {
  const Packed packed = pack(row);
  using Out = OutType<T>;
  const std::vector<Out> expected(row.values.begin(), row.values.end());
  for (const OverrunRoom room : {OverrunRoom::kNone, OverrunRoom::k64Bytes}) {
    const auto back =
        unpack<Out>(packed, row.indices.size(), n_cols, dtype_of<T>(), Casting::kExact, room);
    ASSERT_EQ(back.indices, row.indices);
    ASSERT_TRUE(same_bits(back.values, expected));
  }
}

const std::vector<std::size_t> kSizes = {0,   1,   2,   7,   8,    15,   16,   17,   31,  32,
                                         63,  64,  65,  127, 128,  129,  144,  255,  256, 257,
                                         300, 511, 513, 999, 1000, 1500, 6000, 20000};

template <typename T>
class RecordOf : public ::testing::Test {};
using StoredTypes =
    ::testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                     std::int32_t, std::uint64_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(RecordOf, StoredTypes);

TYPED_TEST(RecordOf, CountsOfEverySizeComeBack) {
  std::mt19937_64 random(1);
  for (const std::size_t nnz : kSizes) {
    Row<TypeParam> row{random_indices(nnz, kColumns, random), {}};
    const std::int64_t most = static_cast<std::int64_t>(
        std::min<double>(1e6, static_cast<double>(std::numeric_limits<TypeParam>::max())));
    for (std::size_t i = 0; i < nnz; ++i) {
      row.values.push_back(static_cast<TypeParam>(std::min(most, heavy_tailed_count(random))));
    }
    expect_round_trip(row);
  }
}

TYPED_TEST(RecordOf, ArbitraryBitPatternsComeBack) {
  std::mt19937_64 random(2);
  for (const std::size_t nnz : kSizes) {
    Row<TypeParam> row{random_indices(nnz, kColumns, random), std::vector<TypeParam>(nnz)};
    for (auto& value : row.values) {
      const std::uint64_t bits = random();
      std::memcpy(&value, &bits, sizeof(value));
    }
    if constexpr (std::is_same_v<TypeParam, std::uint64_t>) {
      for (auto& value : row.values) value >>= 1;  // int64 is the widest output
    }
    expect_round_trip(row);
  }
}

TYPED_TEST(RecordOf, FewDistinctValuesComeBack) {
  std::mt19937_64 random(3);
  for (const std::size_t nnz : kSizes) {
    Row<TypeParam> row{random_indices(nnz, kColumns, random), std::vector<TypeParam>(nnz)};
    for (auto& value : row.values) {
      value = static_cast<TypeParam>(std::numeric_limits<TypeParam>::lowest() / 2 +
                                     static_cast<TypeParam>(random() % 5));
      if constexpr (std::is_floating_point_v<TypeParam>)
        value = static_cast<TypeParam>(std::log1p(static_cast<double>(random() % 7) + 0.5));
    }
    expect_round_trip(row);
  }
}

TYPED_TEST(RecordOf, ExplicitZerosComeBack) {
  std::mt19937_64 random(4);
  for (const std::size_t nnz : kSizes) {
    Row<TypeParam> row{random_indices(nnz, kColumns, random), {}};
    for (std::size_t i = 0; i < nnz; ++i)
      row.values.push_back(static_cast<TypeParam>(random() % 3));
    expect_round_trip(row);
  }
}

template <typename T>
class FloatRecordOf : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FloatRecordOf, FloatTypes);

TYPED_TEST(FloatRecordOf, NanPayloadsAndNegativeZeroComeBack) {
  const TypeParam quiet = std::numeric_limits<TypeParam>::quiet_NaN();
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  std::vector<TypeParam> special{TypeParam{0},
                                 -TypeParam{0},
                                 quiet,
                                 -quiet,
                                 infinity,
                                 -infinity,
                                 1,
                                 2,
                                 std::numeric_limits<TypeParam>::denorm_min(),
                                 std::nextafter(TypeParam{1}, TypeParam{2})};
  for (const std::size_t nnz : {1, 10, 500}) {
    Row<TypeParam> row;
    for (std::size_t i = 0; i < nnz; ++i) {
      row.indices.push_back(static_cast<std::int32_t>(3 * i));
      row.values.push_back(special[(i * 7) % special.size()]);
    }
    expect_round_trip(row);
    row.values.assign(nnz, 1);
    row.values.back() = -TypeParam{0};
    expect_round_trip(row);
  }
}

TYPED_TEST(FloatRecordOf, ScaledCountsTakeTheBytesOfCounts) {
  std::mt19937_64 random(5);
  int scaled = 0;
  for (int cell = 0; cell < 200; ++cell) {
    const std::size_t nnz = 600;
    Row<TypeParam> counts{random_indices(nnz, kColumns, random), {}};
    for (std::size_t i = 0; i < nnz; ++i)
      counts.values.push_back(static_cast<TypeParam>(heavy_tailed_count(random) % 5000));
    for (auto& value : counts.values) value = std::max<TypeParam>(value, 1);
    const TypeParam total =
        std::accumulate(counts.values.begin(), counts.values.end(), TypeParam{0});
    Row<TypeParam> row = counts;
    const TypeParam factor = TypeParam{10000} / total;
    for (auto& value : row.values)
      value = cell % 2 == 0 ? value * factor : value / (total / TypeParam{10000});
    expect_round_trip(row);
    scaled += pack(row).length == pack(counts).length + sizeof(TypeParam);
  }
  EXPECT_EQ(scaled, 200);
}

TEST(Record, LogNormalisedValuesTakeADictionary) {
  std::mt19937_64 random(6);
  Row<float> row{random_indices(1000, kColumns, random), {}};
  for (int i = 0; i < 1000; ++i)
    row.values.push_back(
        std::log1p(static_cast<float>(heavy_tailed_count(random) % 40 + 1) * 3.7f));
  expect_round_trip(row);
  EXPECT_LT(pack(row).length, 1000 * 2);
}

TEST(Record, IndicesUpToTheLargestColumnComeBack) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  expect_round_trip(Row<float>{{static_cast<std::int32_t>(kMost - 1)}, {3}}, kMost);
  expect_round_trip(Row<float>{{0, 1, 5, 1 << 20, 1 << 30, static_cast<std::int32_t>(kMost - 1)},
                               {3, 1, 1, 2, 9, 1}},
                    kMost);
  std::mt19937_64 random(7);
  Row<std::int32_t> wide;
  for (int i = 0; i < 1000; ++i)
    wide.indices.push_back(static_cast<std::int32_t>(random() % kMost));
  std::sort(wide.indices.begin(), wide.indices.end());
  wide.indices.erase(std::unique(wide.indices.begin(), wide.indices.end()), wide.indices.end());
  wide.values.assign(wide.indices.size(), 1);
  expect_round_trip(wide, kMost);
  Row<float> million;
  for (int i = 0; i < 1000000; ++i) million.indices.push_back(i);
  million.values.assign(million.indices.size(), 1);
  expect_round_trip(million, 1000000);
  EXPECT_LT(pack(million).length, 40000);
}

TEST(Record, LargeCountsComeBack) {
  Row<std::uint32_t> row{{1, 2, 3, 4}, {1, 0x7ffffffe, 0x7fffffff, 2}};
  expect_round_trip(row);
  row.values = {0, 0x7fffffff, 0xffffffff, 0x80000000};
  expect_round_trip(row);
  expect_round_trip(Row<double>{{1, 2, 3}, {2147483647.0, 1, 5}});
  expect_round_trip(Row<double>{{1, 2, 3}, {2147483648.0, 9007199254740993.0, 5}});
  expect_round_trip(Row<float>{{1, 2, 3}, {2147483520.0f, 16777216.0f, 1}});
}

TEST(Record, ValuesConvertExactlyOrNotAtAll) {
  const Packed counts = pack(Row<std::int32_t>{{1, 5, 9}, {3, (1 << 24) + 1, 7}});
  EXPECT_THROW(unpack<float>(counts, 3, kColumns, DType::kI32), Error);
  EXPECT_EQ(unpack<float>(counts, 3, kColumns, DType::kI32, Casting::kSameKind).values[1],
            16777216.0f);
  EXPECT_EQ(unpack<double>(counts, 3, kColumns, DType::kI32).values[1], 16777217.0);
  EXPECT_EQ(unpack<std::int64_t>(counts, 3, kColumns, DType::kI32).values[1], 16777217);
  const Packed halves = pack(Row<float>{{1, 5}, {0.5f, 2}});
  EXPECT_THROW(unpack<std::int32_t>(halves, 2, kColumns, DType::kF32), Error);
  EXPECT_EQ(unpack<double>(halves, 2, kColumns, DType::kF32).values[0], 0.5);
  const Packed thirds = pack(Row<double>{{1, 5}, {1.0 / 3, 2}});
  EXPECT_THROW(unpack<float>(thirds, 2, kColumns, DType::kF64), Error);
  try {
    unpack<float>(thirds, 2, kColumns, DType::kF64);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPrecision);
  }
}

TEST(Record, RowsOfABatchDecodeOneBehindTheOther) {
  std::mt19937_64 random(8);
  std::vector<std::uint8_t> bytes;
  std::vector<std::size_t> starts;
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  std::vector<RecordView> views;
  for (int row = 0; row < 50; ++row) {
    const auto one = random_indices(random() % 400, kColumns, random);
    std::vector<float> counts(one.size());
    for (auto& count : counts) count = static_cast<float>(heavy_tailed_count(random));
    starts.push_back(bytes.size());
    encode_record(one, counts.data(), DType::kF32, bytes);
    indices.insert(indices.end(), one.begin(), one.end());
    values.insert(values.end(), counts.begin(), counts.end());
    views.push_back({nullptr, bytes.size() - starts.back(), static_cast<std::int64_t>(one.size())});
  }
  bytes.resize(bytes.size() + kRecordPaddingBytes);
  for (std::size_t i = 0; i < views.size(); ++i) views[i].bytes = bytes.data() + starts[i];
  for (const OverrunRoom room : {OverrunRoom::kNone, OverrunRoom::k64Bytes}) {
    std::vector<std::int32_t> back(indices.size() + 16);
    std::vector<float> numbers(indices.size() + 16);
    decode_records(views, kColumns, DType::kF32, DType::kF32, Casting::kExact, back.data(),
                   numbers.data(), room);
    back.resize(indices.size());
    numbers.resize(indices.size());
    EXPECT_EQ(back, indices);
    EXPECT_EQ(numbers, values);
  }
}

std::vector<std::uint8_t> from_hex(std::string_view hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(Record, BytesNeverChange) {
#define RECORD(name, dtype, indices, values, record) {#name, #dtype, indices, values, record},
  const struct {
    const char *name, *dtype, *indices, *values, *record;
  } vectors[] = {
#include "cellfeed/format/shard/record/record_test_vectors.inc"
  };
#undef RECORD
  for (const auto& vector : vectors) {
    SCOPED_TRACE(vector.name);
    const std::vector<std::uint8_t> index_bytes = from_hex(vector.indices);
    std::vector<std::int32_t> indices(index_bytes.size() / sizeof(std::int32_t));
    if (!indices.empty()) std::memcpy(indices.data(), index_bytes.data(), index_bytes.size());
    std::vector<std::uint8_t> record;
    encode_record(indices, from_hex(vector.values).data(), dtype_from_name(vector.dtype), record);
    EXPECT_EQ(record, from_hex(vector.record));
  }
}

TEST(Record, UnsortedIndicesAreRefusedAndLeaveTheOutput) {
  std::vector<std::uint8_t> out{1, 2, 3};
  const float values[2] = {1, 2};
  for (const std::vector<std::int32_t>& bad :
       {std::vector<std::int32_t>{5, 5}, {6, 5}, {-1, 5}, {5, 0x7fffffff}}) {
    EXPECT_THROW(encode_record(bad, values, DType::kF32, out), Error);
    EXPECT_EQ(out, (std::vector<std::uint8_t>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace cellfeed::format::shard
