// Value kinds: counts, scaled counts, a dictionary of distinct values, or the values themselves.
#include "cellfeed/format/shard/record/record_value_kind.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cellfeed/format/shard/record/record_counts.h"
#include "cellfeed/format/shard/record/record_distinct.h"

namespace cellfeed::format::shard::record {
namespace {

constexpr std::uint32_t kLargestCount = std::numeric_limits<std::int32_t>::max();

// The count a value is, or false (negative zero and NaN are not counts).
template <typename T>
bool is_count(T value, std::int32_t* count) {
  if constexpr (std::is_floating_point_v<T>) {
    // The largest T below 2^31.
    constexpr auto kLimit = static_cast<T>(std::is_same_v<T, float> ? 2147483520.0 : 2147483647.0);
    const bool in_range = value >= T{0} && value <= kLimit;
    *count = static_cast<std::int32_t>(in_range ? value : T{0});
    return in_range & (bits_of(static_cast<T>(*count)) == bits_of(value));
  } else {
    *count = static_cast<std::int32_t>(value);
    return static_cast<std::uint64_t>(value) <= kLargestCount;  // negative values wrap above it
  }
}

template <typename T>
bool code_counts(const T* values, std::size_t nnz, ValueCoding& coding) {
  bool all = true;
  std::uint32_t smallest = 1;
  coding.codes.resize(nnz);
  if constexpr (std::is_same_v<T, float>) {
    const CountedValues found = count_values(values, nnz, coding.codes.data());
    all = found.all;
    smallest = found.smallest;
  } else {
    // Stops early between pieces only, so that a piece is a loop without branches.
    constexpr std::size_t kPiece = 256;
    for (std::size_t start = 0; start < nnz && all; start += kPiece) {
      const std::size_t end = std::min(nnz, start + kPiece);
      for (std::size_t i = start; i < end; ++i) {
        std::int32_t count = 0;
        all &= is_count(values[i], &count);
        coding.codes[i] = static_cast<std::uint32_t>(count) - 1;
        smallest = std::min(smallest, static_cast<std::uint32_t>(count));
      }
    }
  }
  if (!all) return false;
  coding.kind = ValueKind::kCounts;
  coding.zero_based = smallest == 0;
  if (coding.zero_based) {
    for (std::uint32_t& code : coding.codes) ++code;
  }
  return true;
}

template <typename T>
T scale(ValueKind kind, T count, T factor) {
  return kind == ValueKind::kDivided ? count / factor : count * factor;
}

// Fills codes[0..n) when every value is the rounded product (or quotient) of a count and the
// factor.
template <typename T>
bool try_factor(const T* values, std::size_t n, ValueKind kind, T factor, ValueCoding& coding,
                std::uint32_t* codes) {
  if (!std::isfinite(factor) || factor <= T{0}) return false;
  const auto largest = static_cast<T>(std::is_same_v<T, float> ? 1 << 24 : kLargestCount);
  for (std::size_t i = 0; i < n; ++i) {
    const T ratio = kind == ValueKind::kDivided ? values[i] * factor : values[i] / factor;
    if (!(ratio >= T{0.5} && ratio <= largest)) return false;
    const auto count = static_cast<std::uint32_t>(std::nearbyint(ratio));
    if (bits_of(scale(kind, static_cast<T>(count), factor)) != bits_of(values[i])) return false;
    codes[i] = count - 1;
  }
  coding.kind = kind;
  coding.zero_based = false;
  coding.prefix.resize(sizeof(T));
  std::memcpy(coding.prefix.data(), &factor, sizeof(T));
  return true;
}

// A factor near enough that some neighbour within a few units in the last place may be the exact
// one.
template <typename T>
bool try_factors_near(const T* values, std::size_t n, ValueKind kind, T factor, ValueCoding& coding,
                      std::uint32_t* codes) {
  T below = factor;
  T above = factor;
  if (try_factor(values, n, kind, factor, coding, codes)) return true;
  for (int step = 0; step < 2; ++step) {
    below = std::nextafter(below, T{0});
    above = std::nextafter(above, std::numeric_limits<T>::infinity());
    if (try_factor(values, n, kind, below, coding, codes) ||
        try_factor(values, n, kind, above, coding, codes))
      return true;
  }
  return false;
}

// The least and the largest of positive numbers; where there are others, one of them is no normal
// positive number. As integers, since these are compared by vectors.
template <typename T>
std::pair<T, T> least_and_most(const T* values, std::size_t n) {
  using Ordered = std::make_signed_t<Bits<T>>;
  Ordered least = std::bit_cast<Ordered>(values[0]), most = least;
  for (std::size_t i = 1; i < n; ++i) {
    const auto value = std::bit_cast<Ordered>(values[i]);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return {std::bit_cast<T>(least), std::bit_cast<T>(most)};
}

// Counts over a cell's depth: the smallest value is a small count, the largest value fixes the
// factor best. values: all of a row, or each once. REQUIRES: n > 0.
template <typename T>
bool code_scaled(const T* values, std::size_t n, ValueCoding& coding, std::uint32_t* codes) {
  const auto [low, high] = least_and_most(values, n);
  if (!std::isnormal(low) || low <= T{0} || !std::isnormal(high)) return false;
  constexpr int kSmallestCounts = 3;
  for (int smallest = 1; smallest <= kSmallestCounts; ++smallest) {
    const T unit = low / static_cast<T>(smallest);
    const T largest = std::nearbyint(high / unit);
    // Above this the rounding of the smallest value hides which count the largest one is.
    if (!(largest < T{1 << 20})) return false;
    const auto is_near = [&](T value) {
      const T ratio = value / unit;
      return std::abs(ratio - std::nearbyint(ratio)) <=
             static_cast<T>(1e-4) + ratio * static_cast<T>(1e-6);
    };
    if (!std::all_of(values, values + std::min<std::size_t>(n, 64), is_near)) continue;
    if (try_factors_near(values, n, ValueKind::kDivided, largest / high, coding, codes))
      return true;
    if (try_factors_near(values, n, ValueKind::kMultiplied, high / largest, coding, codes))
      return true;
  }
  return false;
}

// Whether one in eight of many values is another each: then a dictionary saves next to nothing, and
// finding that out takes ten times as long as all the rest.
template <typename T>
bool look_distinct(const T* values, std::size_t nnz, DistinctValues<T>& distinct) {
  constexpr std::size_t kStep = 8, kMany = 512;
  if (nnz < kMany) return false;
  distinct.clear();
  for (std::size_t i = 0; i < nnz / kStep; ++i)
    if (distinct.insert(values[i * kStep]) < i) return false;
  return true;
}

// The most distinct values with which a dictionary takes less than the values.
template <typename T>
std::size_t most_distinct(std::size_t nnz) {
  // Two bytes of widths a block and unpatched codes must still be smaller than the values.
  const auto bytes = [&](std::size_t distinct) {
    return sizeof(std::uint32_t) + distinct * sizeof(T) +
           (nnz + kBlockEntries - 1) / kBlockEntries * kWordBytes +
           (nnz * std::bit_width(distinct - 1) + 7) / 8;
  };
  std::size_t most = nnz;
  while (most > 0 && bytes(most) >= nnz * sizeof(T)) most = most * 15 / 16;
  return most;
}

// False where there are too many distinct values. Otherwise codes are their numbers.
template <typename T>
bool number_values(const T* values, std::size_t nnz, DistinctValues<T>& distinct,
                   ValueCoding& coding) {
  if (look_distinct(values, nnz, distinct)) return false;
  const std::size_t most = most_distinct<T>(nnz);
  distinct.clear();
  coding.codes.resize(nnz);
  return most > 0 && distinct.number(values, nnz, most, coding.codes.data());
}

void replace_codes(const std::vector<std::uint32_t>& by, std::vector<std::uint32_t>& codes) {
  for (std::uint32_t& code : codes) code = by[code];
}

template <typename T>
void code_dictionary(DistinctValues<T>& distinct, std::vector<std::uint32_t>& ranks,
                     ValueCoding& coding) {
  const auto n = static_cast<std::uint32_t>(distinct.seen().size());
  coding.kind = ValueKind::kDictionary;
  coding.prefix.resize(sizeof(n) + n * sizeof(T));
  std::memcpy(coding.prefix.data(), &n, sizeof(n));
  std::uint8_t* to = coding.prefix.data() + sizeof(n);
  ranks.resize(n);
  std::uint32_t rank = 0;
  distinct.visit_in_order([&](Bits<T> bits, std::uint32_t number) {
    std::memcpy(to, &bits, sizeof(bits));
    to += sizeof(bits);
    ranks[number] = rank++;
  });
  replace_codes(ranks, coding.codes);
}

template <typename T>
void choose(const T* values, std::size_t nnz, ValueCoding& coding) {
  // A thread's, as large as the largest row took.
  thread_local DistinctValues<T> distinct;
  thread_local std::vector<std::uint32_t> of_distinct;
  coding.prefix.clear();
  coding.zero_based = false;
  if (code_counts(values, nnz, coding)) return;
  const bool are_numbered = number_values(values, nnz, distinct, coding);
  if constexpr (std::is_floating_point_v<T>) {
    if (nnz >= 2 && are_numbered) {
      const std::vector<T>& seen = distinct.seen();
      of_distinct.resize(seen.size());
      if (code_scaled(seen.data(), seen.size(), coding, of_distinct.data()))
        return replace_codes(of_distinct, coding.codes);
    } else if (nnz >= 2 && code_scaled(values, nnz, coding, coding.codes.data())) {
      return;
    }
  }
  if (are_numbered) return code_dictionary(distinct, of_distinct, coding);
  coding.kind = ValueKind::kRaw;
  coding.codes.clear();
}

}  // namespace

void choose_value_coding(const void* values, std::size_t nnz, DType dtype, ValueCoding& coding) {
  dispatch_dtype(dtype, [&](auto tag) {
    // Booleans are bytes, which a vector keeps as such.
    using T = std::conditional_t<std::is_same_v<decltype(tag), bool>, std::uint8_t, decltype(tag)>;
    choose(static_cast<const T*>(values), nnz, coding);
  });
}

}  // namespace cellfeed::format::shard::record
