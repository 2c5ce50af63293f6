// Record kernels: every SIMD target does what the scalar reference does, on sound and on damaged
// bytes.
#include "cellfeed/format/shard/record/record_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cellfeed/format/shard/record/record.h"
#include "cellfeed/format/shard/record/record_counts.h"
#include "cellfeed/format/shard/record/record_pack.h"
#include "cellfeed/format/shard/record/record_parts.h"
#include "cellfeed/testing/each_target.h"

namespace cellfeed::format::shard::record {
namespace {

using cellfeed::testing::for_each_target;

constexpr std::int64_t kWideColumns = 1 << 20;
constexpr std::uint32_t kNeverWritten = 0xabababab;

struct Outputs {
  BlockStatus status = BlockStatus::kDone;
  std::ptrdiff_t used = 0;
  std::vector<std::uint32_t> indices;
  std::vector<std::uint32_t> values;
};

Outputs run(BlockRequest request, BlockResult (*unpack)(const BlockRequest&)) {
  Outputs out;
  const auto room = static_cast<std::size_t>(request.nnz) + 16;
  out.indices.assign(room, kNeverWritten);
  out.values.assign(room, kNeverWritten);
  request.indices = reinterpret_cast<std::int32_t*>(out.indices.data());
  request.values = out.values.data();
  const BlockResult result = unpack(request);
  out.status = result.status;
  out.used = result.end - request.data;
  return out;
}

int compared = 0;
int declined = 0;

void expect_as_reference(const BlockRequest& request) {
  const Outputs expected = run(request, unpack_blocks_scalar);
  for_each_target([&] {
    const Outputs got = run(request, unpack_blocks);
    if (got.status == BlockStatus::kTooWide) {
      ++declined;
      return;
    }
    ++compared;
    // Widths are checked in front of the blocks, so that which of two faults is named may differ.
    ASSERT_EQ(got.status == BlockStatus::kDone, expected.status == BlockStatus::kDone);
    if (expected.status != BlockStatus::kDone) return;
    ASSERT_EQ(got.used, expected.used);
    const auto n = static_cast<std::ptrdiff_t>(request.nnz);
    ASSERT_TRUE(std::equal(got.indices.begin(), got.indices.begin() + n, expected.indices.begin()));
    ASSERT_TRUE(std::equal(got.values.begin(), got.values.begin() + n, expected.values.begin()));
    if (request.may_overrun) return;
    for (std::size_t i = static_cast<std::size_t>(n); i < got.indices.size(); ++i) {
      ASSERT_EQ(got.indices[i], kNeverWritten) << "written behind the end";
      ASSERT_EQ(got.values[i], kNeverWritten) << "written behind the end";
    }
  });
}

// A record whose gaps and codes have about the bits wanted, with some far larger.
std::vector<std::uint8_t> random_record(std::int64_t nnz, int gap_bits, int code_bits,
                                        std::mt19937_64& random) {
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> counts;
  std::int64_t index = -1;
  const auto spread = [&](int bits) {
    const int more = random() % 9 == 0 ? static_cast<int>(random() % 6) : 0;
    return static_cast<std::int64_t>(random() % (std::uint64_t{1} << std::min(bits + more, 21)));
  };
  for (std::int64_t i = 0; i < nnz; ++i) {
    index = std::min(index + 1 + spread(gap_bits), kWideColumns - nnz + i);
    indices.push_back(static_cast<std::int32_t>(index));
    counts.push_back(static_cast<std::int32_t>(1 + spread(code_bits)));
  }
  std::vector<std::uint8_t> bytes;
  encode_record(indices, counts.data(), DType::kI32, bytes);
  return bytes;
}

BlockRequest request_of(const RecordParts& parts, std::int64_t nnz, CodeOutput output,
                        bool may_overrun) {
  BlockRequest request;
  request.words = parts.words;
  request.data = parts.blocks;
  request.end = parts.blocks_end;
  request.nnz = nnz;
  request.n_cols = kWideColumns;
  request.output = output;
  request.offset = 1;
  request.factor = 0.37f;
  request.may_overrun = may_overrun;
  return request;
}

TEST(RecordKernels, EveryTargetEqualsTheReference) {
  std::mt19937_64 random(1);
  for (const std::int64_t nnz :
       {1, 3, 4, 5, 8, 9, 15, 16, 17, 100, 127, 128, 129, 200, 255, 256, 300, 1001}) {
    for (int bits = 0; bits <= 21; ++bits) {
      std::vector<std::uint8_t> bytes = random_record(nnz, bits % 12, 21 - bits, random);
      const std::size_t length = bytes.size();
      bytes.resize(length + kRecordPaddingBytes);
      bytes.shrink_to_fit();
      const RecordParts parts = parse_record({bytes.data(), length}, nnz, DType::kI32);
      for (const CodeOutput output : {CodeOutput::kI32, CodeOutput::kF32,
                                      CodeOutput::kF32Multiplied, CodeOutput::kF32Divided}) {
        expect_as_reference(request_of(parts, nnz, output, false));
        expect_as_reference(request_of(parts, nnz, output, true));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(RecordKernels, EveryTargetRefusesWhatTheReferenceRefuses) {
  std::mt19937_64 random(2);
  int refused = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const std::int64_t nnz = 1 + static_cast<std::int64_t>(random() % 300);
    std::vector<std::uint8_t> bytes =
        random_record(nnz, static_cast<int>(random() % 10), static_cast<int>(random() % 6), random);
    const std::size_t length = bytes.size();
    for (int flips = 1 + static_cast<int>(random() % 4); flips-- > 0;) {
      const std::size_t at = kHeaderBytes + random() % (length - kHeaderBytes);
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1 << random() % 8));
    }
    bytes.resize(length + kRecordPaddingBytes);
    bytes.shrink_to_fit();
    const RecordParts parts = parse_record({bytes.data(), length}, nnz, DType::kI32);
    const BlockRequest request = request_of(parts, nnz, CodeOutput::kF32, false);
    refused += run(request, unpack_blocks_scalar).status != BlockStatus::kDone;
    expect_as_reference(request);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(compared, declined);
}

TEST(RecordKernels, EveryTargetPlansAsTheReference) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    std::uint32_t numbers[kBlockEntries] = {};
    const int entries = 1 + static_cast<int>(random() % kBlockEntries);
    const int bits = static_cast<int>(random() % 31);
    for (int i = 0; i < entries; ++i) {
      numbers[i] = static_cast<std::uint32_t>(
          random() & ((std::uint64_t{1} << (random() % 8 == 0 ? 31 : bits)) - 1));
    }
    const StreamPlan expected = plan_stream_scalar(numbers, entries);
    for_each_target([&] {
      const StreamPlan plan = plan_stream(numbers, entries);
      ASSERT_EQ(plan.widths.word(), expected.widths.word());
      ASSERT_EQ(plan.has_high[0], expected.has_high[0]);
      ASSERT_EQ(plan.has_high[1], expected.has_high[1]);
    });
    if (HasFatalFailure()) return;
  }
}

// Narrowing to bytes must saturate at the borders of every width on the way.
TEST(RecordKernels, EveryTargetSeesSingleExceptionsOfEverySize) {
  for (int bits = 1; bits < 31; ++bits)
    for (const std::int64_t offset : {-1, 0, 1, 100, 255}) {
      const std::int64_t value = (std::int64_t{1} << bits) + offset;
      if (value < 2 || value > 0x7fffffff) continue;
      std::uint32_t numbers[kBlockEntries] = {};
      for (int i = 0; i < kBlockEntries; ++i) numbers[i] = static_cast<std::uint32_t>(i % 2);
      numbers[37] = numbers[101] = static_cast<std::uint32_t>(value);
      const StreamPlan expected = plan_stream_scalar(numbers, kBlockEntries);
      for_each_target([&] {
        const StreamPlan plan = plan_stream(numbers, kBlockEntries);
        ASSERT_EQ(plan.widths.word(), expected.widths.word()) << value;
        ASSERT_EQ(plan.has_high[0], expected.has_high[0]) << value;
        ASSERT_EQ(plan.has_high[1], expected.has_high[1]) << value;
      });
      if (HasFatalFailure()) return;
    }
}

TEST(RecordKernels, NoOtherWidthsTakeFewerBytes) {
  std::mt19937_64 random(4);
  int n_compared = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::uint32_t numbers[kBlockEntries];
    for (auto& number : numbers) {
      number = static_cast<std::uint32_t>(
          std::min(2e9, std::exp(3 * std::pow(static_cast<double>(random() % 1000) / 250, 1.2))));
    }
    const StreamPlan plan = plan_stream(numbers, kBlockEntries);
    for (int base = 0; base <= kMaxNumberBits; ++base) {
      for (int high = 0; base + high <= kMaxNumberBits; ++high) {
        StreamWidths other{base, high, 0};
        bool fits = true;
        for (const std::uint32_t number : numbers) {
          other.exceptions += number >> base != 0;
          fits &= number >> base <= std::uint64_t{1} << high;
        }
        if (!fits || other.exceptions > kMaxExceptions) continue;
        ++n_compared;
        ASSERT_LE(plan.widths.bytes(kBlockEntries), other.bytes(kBlockEntries));
      }
    }
  }
  EXPECT_GT(n_compared, 300);
}

TEST(RecordKernels, EveryTargetTellsCountsFromOtherValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float others[] = {-0.0F,          -1.0F,         0.5F,     1.0F + 0x1p-23F, 2147483648.0F,
                          -2147483648.0F, 4294967296.0F, infinity, -infinity,       std::nanf("")};
  std::mt19937_64 random(5);
  for (const std::size_t n : {1, 5, 16, 17, 100, 255, 256, 257, 700}) {
    std::vector<float> values(n);
    for (float& value : values) value = static_cast<float>(1 + random() % 300);
    values[random() % n] = 2147483520.0F;
    const auto expect = [&](bool all, std::uint32_t smallest) {
      for_each_target([&] {
        std::vector<std::uint32_t> codes(n);
        const CountedValues found = count_values(values.data(), n, codes.data());
        ASSERT_EQ(found.all, all) << n;
        if (!all) return;
        ASSERT_EQ(found.smallest, smallest) << n;
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_EQ(static_cast<float>(codes[i] + 1), values[i]) << i;
      });
    };
    expect(true, 1);
    const std::size_t at = random() % n;
    for (const float other : others) {
      values[at] = other;
      expect(false, 0);
    }
    values[at] = 0.0F;
    expect(true, 0);
  }
}

// As docs/format/record.md says, bit by bit.
void append_block(const std::uint32_t* numbers, int entries, StreamWidths widths,
                  std::vector<std::uint8_t>& words, std::vector<std::uint8_t>& blocks) {
  words.push_back(static_cast<std::uint8_t>(widths.word()));
  words.push_back(static_cast<std::uint8_t>(widths.word() >> 8));
  int used = 8;  // bits of the last byte
  const auto append_bits = [&](std::uint64_t field, int bits) {
    for (int bit = 0; bit < bits; ++bit) {
      if (used == 8) {
        blocks.push_back(0);
        used = 0;
      }
      blocks.back() = static_cast<std::uint8_t>(blocks.back() | (field >> bit & 1) << used++);
    }
  };
  for (int i = 0; i < entries; ++i) append_bits(numbers[i], widths.base_bits);
  used = 8;
  for (int i = 0; i < entries; ++i) {
    const std::uint32_t high = numbers[i] >> widths.base_bits;
    if (high == 0) continue;
    append_bits(static_cast<std::uint64_t>(i), kPositionBits);
    append_bits(high - 1, widths.high_bits);
  }
}

// Whole rows against one block at a time by the reference: every length, and gaps and codes that
// are small, large and mixed.
TEST(RecordKernels, EveryTargetPacksRowsAsTheReference) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t n = 1 + random() % 2300;
    std::vector<std::int32_t> indices(n);
    std::vector<std::uint32_t> codes(n);
    const int bits = static_cast<int>(random() % 18);
    std::int64_t index = -1;
    for (std::size_t i = 0; i < n; ++i) {
      index +=
          1 + static_cast<std::int64_t>(random() % (random() % 9 == 0 ? 900'000 : 1 + (1 << bits)));
      indices[i] = static_cast<std::int32_t>(index);
      codes[i] = static_cast<std::uint32_t>(random() % (random() % 9 == 0 ? 1u << 31 : 1u << bits));
    }
    ASSERT_LT(index, std::int64_t{1} << 31);
    const std::size_t n_blocks = (n + kBlockEntries - 1) / kBlockEntries;
    for (const bool has_codes : {false, true}) {
      std::vector<std::uint8_t> words, blocks;
      for (std::size_t first = 0; first < n; first += kBlockEntries) {
        const std::size_t entries = std::min<std::size_t>(kBlockEntries, n - first);
        for (int stream = 0; stream < (has_codes ? 2 : 1); ++stream) {
          std::uint32_t numbers[kBlockEntries] = {};
          for (std::size_t i = 0; i < entries; ++i) {
            const std::int32_t previous = first + i == 0 ? -1 : indices[first + i - 1];
            numbers[i] = stream == 1
                             ? codes[first + i]
                             : static_cast<std::uint32_t>(indices[first + i] - previous - 1);
          }
          const int count = static_cast<int>(entries);
          const StreamWidths widths = plan_stream_scalar(numbers, count).widths;
          append_block(numbers, count, widths, words, blocks);
        }
      }
      for_each_target([&] {
        std::vector<std::uint8_t> own_words(words.size()),
            own_blocks(n_blocks * 2 * kMaxStreamBytes + kPackRoomBytes);
        const std::uint8_t* end = pack_blocks(indices, has_codes ? codes.data() : nullptr,
                                              own_words.data(), own_blocks.data());
        own_blocks.resize(static_cast<std::size_t>(end - own_blocks.data()));
        ASSERT_EQ(own_words, words);
        ASSERT_EQ(own_blocks, blocks);
      });
      if (HasFatalFailure()) return;
    }
    const std::size_t at = random() % n;
    indices[at] = at == 0 ? -1 : indices[at - 1];
    for_each_target([&] {
      std::vector<std::uint8_t> words(n_blocks * 2), blocks(n_blocks * kMaxStreamBytes + 64);
      ASSERT_EQ(pack_blocks(indices, nullptr, words.data(), blocks.data()), nullptr);
    });
  }
}

}  // namespace
}  // namespace cellfeed::format::shard::record
