// Records: damaged bytes are an error of the right kind, or at worst other values; never memory
// outside.
#include <gtest/gtest.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/record/record_test_rows.h"

namespace cellfeed::format::shard {
namespace {

// Decodes damaged bytes: either an error of the right kind, or columns that are sorted and inside
// the matrix.
void expect_sound_or_refused(const Packed& damaged, std::int64_t nnz, DType stored, int* refused) {
  const auto n = static_cast<std::size_t>(nnz);
  for (const DType out : {DType::kF32, DType::kI64}) {
    std::vector<std::int32_t> indices(n);
    std::vector<std::int64_t> values(n);
    try {
      decode_record(damaged.view(), nnz, kColumns, stored, out, Casting::kExact, indices.data(),
                    values.data());
      EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
      if (n == 0) continue;
      EXPECT_GE(indices.front(), 0);
      EXPECT_LT(indices.back(), kColumns);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kCorruptData || error.kind() == ErrorKind::kPrecision)
          << error.what();
      ++*refused;
    }
  }
}

TEST(Record, DamageIsAnErrorAndNeverALeak) {
  std::mt19937_64 random(9);
  int refused = 0;
  for (int trial = 0; trial < 8000; ++trial) {
    const std::size_t nnz = random() % 300;
    Row<float> row{random_indices(nnz, 3000, random), {}};
    const int kind = trial % 4;
    for (std::size_t i = 0; i < nnz; ++i) {
      const auto count = static_cast<float>(heavy_tailed_count(random) % 50 + 1);
      row.values.push_back(kind == 0   ? count
                           : kind == 1 ? count * 0.37f
                           : kind == 2 ? std::log1p(count)
                                       : std::sin(static_cast<float>(random() % 100000)));
    }
    Packed packed = pack(row);
    for (int flips = static_cast<int>(random() % 4); flips-- > 0;) {
      auto& byte = packed.bytes[random() % packed.length];
      byte = static_cast<std::uint8_t>(random() % 2 == 0 ? byte ^ (1 << random() % 8) : random());
    }
    if (random() % 8 == 0) {
      packed.length = random() % (packed.length + 1);
      packed.bytes.resize(packed.length + kRecordPaddingBytes);
      packed.bytes.shrink_to_fit();
    }
    const DType stored = random() % 8 == 0 ? DType::kF64 : DType::kF32;
    expect_sound_or_refused(packed, static_cast<std::int64_t>(nnz), stored, &refused);
  }
  EXPECT_GT(refused, 4000);
}

TEST(Record, EveryShorterPrefixIsRefused) {
  std::mt19937_64 random(10);
  Row<float> row{random_indices(200, kColumns, random), {}};
  for (int i = 0; i < 200; ++i)
    row.values.push_back(static_cast<float>(heavy_tailed_count(random)));
  const Packed packed = pack(row);
  for (std::size_t length = 0; length < packed.length; ++length) {
    const Packed prefix{packed.bytes, length};
    EXPECT_THROW(unpack<float>(prefix, 200, kColumns, DType::kF32), Error) << length;
  }
  EXPECT_THROW(unpack<float>(packed, 199, kColumns, DType::kF32), Error);
  EXPECT_THROW(unpack<float>(packed, 200, row.indices.back(), DType::kF32), Error);
  EXPECT_NO_THROW(unpack<float>(packed, 200, row.indices.back() + 1, DType::kF32));
}

}  // namespace
}  // namespace cellfeed::format::shard
