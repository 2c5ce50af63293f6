// Which kind the values of a row get; the hash of its dictionary.
#include "cellfeed/format/shard/record/record_value_kind.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cellfeed::format::shard::record {
namespace {

TEST(DictionaryHash, SpreadsValuesThatShareTheirBits) {
  constexpr int kSlotBits = 11;
  constexpr std::uint64_t kValues = 1 << (kSlotBits - 1);
  using Pattern = std::function<std::uint64_t(std::uint64_t)>;
  std::vector<std::pair<std::string, Pattern>> patterns{
      {"logarithms as float32",
       [](std::uint64_t i) {
         return std::uint64_t{std::bit_cast<std::uint32_t>(std::log1p(static_cast<float>(i) / 7))};
       }},
      {"logarithms as float32, widened",
       [](std::uint64_t i) {
         return std::bit_cast<std::uint64_t>(double{std::log1p(static_cast<float>(i) / 7)});
       }},
      {"whole numbers as float64",
       [](std::uint64_t i) { return std::bit_cast<std::uint64_t>(static_cast<double>(i + 1)); }},
      {"negative whole numbers", [](std::uint64_t i) { return ~i; }}};
  for (int shift = 0; shift <= 64 - kSlotBits; ++shift)
    patterns.emplace_back("numbers that end with " + std::to_string(shift) + " zeros",
                          [shift](std::uint64_t i) { return i << shift; });
  for (const auto& [name, pattern] : patterns) {
    std::set<std::size_t> slots;
    for (std::uint64_t i = 0; i < kValues; ++i) slots.insert(slot_of_bits(pattern(i), kSlotBits));
    // At random, (1 - 1/e^0.5) of twice as many slots are taken: 0.79 a value.
    EXPECT_GT(slots.size(), kValues / 2) << name;
    EXPECT_LT(*slots.rbegin(), std::size_t{1} << kSlotBits);
  }
}

// n values of which so many are different, none of them counts.
ValueKind kind_of(std::size_t n, std::size_t n_distinct) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = std::sin(static_cast<float>(i * 7919 % n_distinct) + 0.5F);
  ValueCoding coding;
  choose_value_coding(values.data(), n, DType::kF32, coding);
  return coding.kind;
}

TEST(ValueKind, FewValuesAreADictionaryAndManyAreRaw) {
  for (const std::size_t n : {500, 512, 2000, 20'000}) {
    EXPECT_EQ(kind_of(n, 8), ValueKind::kDictionary) << n;
    EXPECT_EQ(kind_of(n, n / 8), ValueKind::kDictionary) << n;
    EXPECT_EQ(kind_of(n, n), ValueKind::kRaw) << n;
  }
}

}  // namespace
}  // namespace cellfeed::format::shard::record
