// Value kinds: counts, scaled counts, a dictionary of distinct values, or the values themselves.
#include "cellfeed/format/shard/record/record_value_kind.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cellfeed/format/shard/record/record_counts.h"

namespace cellfeed::format::shard::record {
namespace {

template <typename T>
using Bits = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <typename T>
Bits<T> bits_of(T value) {
  return std::bit_cast<Bits<T>>(value);
}

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

// Fills codes when every value is the rounded product (or quotient) of a count and the factor.
template <typename T>
bool try_factor(const T* values, std::size_t nnz, ValueKind kind, T factor, ValueCoding& coding) {
  if (!std::isfinite(factor) || factor <= T{0}) return false;
  const auto largest = static_cast<T>(std::is_same_v<T, float> ? 1 << 24 : kLargestCount);
  for (std::size_t i = 0; i < nnz; ++i) {
    const T ratio = kind == ValueKind::kDivided ? values[i] * factor : values[i] / factor;
    if (!(ratio >= T{0.5} && ratio <= largest)) return false;
    const auto count = static_cast<std::uint32_t>(std::nearbyint(ratio));
    if (bits_of(scale(kind, static_cast<T>(count), factor)) != bits_of(values[i])) return false;
    coding.codes[i] = count - 1;
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
bool try_factors_near(const T* values, std::size_t nnz, ValueKind kind, T factor,
                      ValueCoding& coding) {
  T below = factor;
  T above = factor;
  if (try_factor(values, nnz, kind, factor, coding)) return true;
  for (int step = 0; step < 2; ++step) {
    below = std::nextafter(below, T{0});
    above = std::nextafter(above, std::numeric_limits<T>::infinity());
    if (try_factor(values, nnz, kind, below, coding) ||
        try_factor(values, nnz, kind, above, coding))
      return true;
  }
  return false;
}

// Counts over a cell's depth: the smallest value is a small count, the largest value fixes the
// factor best.
template <typename T>
bool code_scaled(const T* values, std::size_t nnz, ValueCoding& coding) {
  const auto [low, high] = std::minmax_element(values, values + nnz);
  if (nnz < 2 || !std::isnormal(*low) || *low <= T{0} || !std::isnormal(*high)) return false;
  constexpr int kSmallestCounts = 3;
  for (int smallest = 1; smallest <= kSmallestCounts; ++smallest) {
    const T unit = *low / static_cast<T>(smallest);
    const T largest = std::nearbyint(*high / unit);
    // Above this the rounding of the smallest value hides which count the largest one is.
    if (!(largest < T{1 << 20})) return false;
    const auto is_near = [&](T value) {
      const T ratio = value / unit;
      return std::abs(ratio - std::nearbyint(ratio)) <=
             static_cast<T>(1e-4) + ratio * static_cast<T>(1e-6);
    };
    if (!std::all_of(values, values + std::min<std::size_t>(nnz, 64), is_near)) continue;
    if (try_factors_near(values, nnz, ValueKind::kDivided, largest / *high, coding)) return true;
    if (try_factors_near(values, nnz, ValueKind::kMultiplied, *high / largest, coding)) return true;
  }
  return false;
}

// Distinct values of a row by open addressing; gives up above `most`.
template <typename T>
class DistinctValues {
 public:
  DistinctValues(std::size_t nnz, std::size_t most)
      : most_(most),
        slot_bits_(static_cast<int>(std::bit_width(2 * nnz + 1))),
        mask_((std::size_t{1} << slot_bits_) - 1),
        slots_(mask_ + 1, kEmpty) {}

  // The value's number in order of first sight, or -1 when there are too many.
  std::int64_t insert(Bits<T> bits) {
    std::size_t slot = slot_of_bits(bits, slot_bits_);
    while (slots_[slot] != kEmpty && seen_[slots_[slot]] != bits) slot = (slot + 1) & mask_;
    if (slots_[slot] == kEmpty) {
      if (seen_.size() == most_) return -1;
      slots_[slot] = static_cast<std::uint32_t>(seen_.size());
      seen_.push_back(bits);
    }
    return slots_[slot];
  }
  const std::vector<Bits<T>>& seen() const { return seen_; }

 private:
  static constexpr std::uint32_t kEmpty = 0xffffffff;
  std::size_t most_;
  int slot_bits_;
  std::size_t mask_;
  std::vector<std::uint32_t> slots_;
  std::vector<Bits<T>> seen_;
};

// Whether one in eight of many values is another each: then a dictionary saves next to nothing, and
// finding that out takes ten times as long as all the rest.
template <typename T>
bool look_distinct(const T* values, std::size_t nnz) {
  constexpr std::size_t kStep = 8, kMany = 512;
  if (nnz < kMany) return false;
  DistinctValues<T> distinct(nnz / kStep, nnz / kStep);
  for (std::size_t i = 0; i < nnz / kStep; ++i)
    if (distinct.insert(bits_of(values[i * kStep])) < static_cast<std::int64_t>(i)) return false;
  return true;
}

template <typename T>
bool code_dictionary(const T* values, std::size_t nnz, ValueCoding& coding) {
  if (look_distinct(values, nnz)) return false;
  // Two bytes of widths a block and unpatched codes must still be smaller than the values.
  const auto bytes = [&](std::size_t distinct) {
    return sizeof(std::uint32_t) + distinct * sizeof(T) +
           (nnz + kBlockEntries - 1) / kBlockEntries * kWordBytes +
           (nnz * std::bit_width(distinct - 1) + 7) / 8;
  };
  std::size_t most = nnz;
  while (most > 0 && bytes(most) >= nnz * sizeof(T)) most = most * 15 / 16;
  if (most == 0) return false;
  DistinctValues<T> distinct(nnz, most);
  coding.codes.resize(nnz);
  for (std::size_t i = 0; i < nnz; ++i) {
    const std::int64_t number = distinct.insert(bits_of(values[i]));
    if (number < 0) return false;
    coding.codes[i] = static_cast<std::uint32_t>(number);
  }
  std::vector<Bits<T>> sorted = distinct.seen();
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint32_t> rank(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    rank[i] = static_cast<std::uint32_t>(
        std::lower_bound(sorted.begin(), sorted.end(), distinct.seen()[i]) - sorted.begin());
  }
  for (std::uint32_t& code : coding.codes) code = rank[code];
  coding.kind = ValueKind::kDictionary;
  const auto n_entries = static_cast<std::uint32_t>(sorted.size());
  coding.prefix.resize(sizeof(n_entries) + sorted.size() * sizeof(T));
  std::memcpy(coding.prefix.data(), &n_entries, sizeof(n_entries));
  std::memcpy(coding.prefix.data() + sizeof(n_entries), sorted.data(), sorted.size() * sizeof(T));
  return true;
}

template <typename T>
void choose(const T* values, std::size_t nnz, ValueCoding& coding) {
  coding.prefix.clear();
  coding.zero_based = false;
  if (code_counts(values, nnz, coding)) return;
  if constexpr (std::is_floating_point_v<T>) {
    if (code_scaled(values, nnz, coding)) return;
  }
  if (code_dictionary(values, nnz, coding)) return;
  coding.kind = ValueKind::kRaw;
  coding.codes.clear();
}

}  // namespace

void choose_value_coding(const void* values, std::size_t nnz, DType dtype, ValueCoding& coding) {
  dispatch_dtype(dtype == DType::kBool ? DType::kU8 : dtype,
                 [&](auto tag) { choose(static_cast<const decltype(tag)*>(values), nnz, coding); });
}

}  // namespace cellfeed::format::shard::record
