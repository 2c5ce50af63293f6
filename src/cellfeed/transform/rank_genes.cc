#include "cellfeed/transform/rank_genes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::transform {
namespace {

constexpr int kMaxDigitBits = 11;
// Parts of the row that are counted apart: most counts are 1, and one counter would wait for
// itself.
constexpr std::size_t kParts = 4;

template <typename Key>
struct Entry {
  Key key;  // smaller comes first
  std::int32_t gene;
};

template <typename Key>
using Entries = std::vector<Entry<Key>>;

// Bits that are ordered as the values are.
template <typename T>
auto ordered_bits(T value) {
  using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(T) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return Key{0};               // below -infinity
    const Key bits = std::bit_cast<Key>(value + T{0});  // -0 becomes 0
    return static_cast<Key>((bits & kSign) != 0 ? ~bits : bits | kSign);
  } else {
    return static_cast<Key>(static_cast<Key>(value) ^ kSign);
  }
}

// Counts that are stored as floats sort as integers do, in fewer passes.
template <typename T>
bool are_counts(const T* values, std::size_t n) {
  constexpr T kLimit = T{1 << 22};
  bool are = true;
  for (std::size_t i = 0; i < n; ++i) {
    const T value = values[i] >= 0 && values[i] <= kLimit ? values[i] : T{0.5};
    are &= static_cast<T>(static_cast<std::int32_t>(value)) == value;
  }
  return are;
}

// Stable, by `bits` bits of the key from `shift` on.
template <typename Key>
void sort_by_digit(const Entries<Key>& from, Entries<Key>& to, int shift, int bits) {
  static thread_local std::array<std::vector<std::uint32_t>, kParts> places;
  const std::size_t n_digits = std::size_t{1} << bits;
  const Key mask = static_cast<Key>(n_digits - 1);
  const std::size_t part_size = from.size() / kParts;
  const auto digit = [&](std::size_t i) { return from[i].key >> shift & mask; };
  for (auto& part : places) part.assign(n_digits, 0);
  for (std::size_t i = 0; i < part_size; ++i)
    for (std::size_t p = 0; p < kParts; ++p) ++places[p][digit(p * part_size + i)];
  for (std::size_t i = kParts * part_size; i < from.size(); ++i) ++places[kParts - 1][digit(i)];
  std::uint32_t next = 0;
  for (std::size_t d = 0; d < n_digits; ++d)
    for (auto& part : places) {
      const std::uint32_t count = part[d];
      part[d] = next;
      next += count;
    }
  for (std::size_t i = 0; i < part_size; ++i)
    for (std::size_t p = 0; p < kParts; ++p) {
      const std::size_t at = p * part_size + i;
      to[places[p][digit(at)]++] = from[at];
    }
  for (std::size_t i = kParts * part_size; i < from.size(); ++i)
    to[places[kParts - 1][digit(i)]++] = from[i];
}

template <typename Key>
void sort_by_key(Entries<Key>& entries, Key largest) {
  static thread_local Entries<Key> other;
  other.resize(entries.size());
  const auto width = static_cast<int>(std::bit_width(largest));
  const int passes = (width + kMaxDigitBits - 1) / kMaxDigitBits;
  for (int pass = 0; pass < passes; ++pass) {
    const int bits = (width + passes - 1) / passes;
    sort_by_digit(entries, other, pass * bits, std::min(bits, width - pass * bits));
    entries.swap(other);
  }
}

template <typename T, typename ToKey>
std::size_t rank(const Row& row, std::span<std::int32_t> genes, const ToKey& to_key) {
  using Key = decltype(to_key(T{}));
  static thread_local Entries<Key> entries;
  const auto* values = static_cast<const T*>(row.values);
  const auto n = static_cast<std::size_t>(row.size);
  entries.resize(n);
  Key low = std::numeric_limits<Key>::max();
  Key high = 0;
  for (std::size_t i = 0; i < n; ++i) {
    entries[i] = {to_key(values[i]), row.indices[i]};
    low = std::min(low, entries[i].key);
    high = std::max(high, entries[i].key);
  }
  for (auto& entry : entries) entry.key = high - entry.key;
  if (n > 0) sort_by_key(entries, static_cast<Key>(high - low));
  const std::size_t written = std::min(n, genes.size());
  for (std::size_t i = 0; i < written; ++i) genes[i] = entries[i].gene;
  return written;
}

template <typename T>
std::size_t rank_values(const Row& row, std::span<std::int32_t> genes) {
  if constexpr (std::is_floating_point_v<T>)
    if (are_counts(static_cast<const T*>(row.values), static_cast<std::size_t>(row.size)))
      return rank<T>(row, genes, [](T value) { return static_cast<std::uint32_t>(value); });
  return rank<T>(row, genes, [](T value) { return ordered_bits(value); });
}

}  // namespace

std::size_t rank_genes(const Row& row, std::span<std::int32_t> genes) {
  switch (row.dtype) {
    case DType::kF32:
      return rank_values<float>(row, genes);
    case DType::kF64:
      return rank_values<double>(row, genes);
    case DType::kI32:
      return rank_values<std::int32_t>(row, genes);
    case DType::kI64:
      return rank_values<std::int64_t>(row, genes);
    default:
      throw Error(ErrorKind::kInternal, "a row of a dtype that batches do not hold");
  }
}

}  // namespace cellfeed::transform
