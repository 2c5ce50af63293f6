#include "cellfeed/transform/rank_entries.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace cellfeed::transform {
namespace {

// Below, comparing is quicker than counting.
constexpr std::size_t kFewEntries = 48;
constexpr int kDigitBits = 9;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
// Parts of the row that are counted apart: most counts are 1, and one counter would wait for
// itself.
constexpr std::size_t kParts = 4;
// Steps back, an entry, of what counting left unsorted; beyond, comparing is quicker.
constexpr std::size_t kStepsBack = 4;

using Places = std::array<std::array<std::uint32_t, kDigits>, kParts>;

std::uint32_t value_bits(std::uint64_t entry) { return static_cast<std::uint32_t>(entry >> 32); }

// Sorts what is nearly sorted, stable; false where it took too many steps, and then some is not.
bool insert_in_order(std::span<std::uint64_t> entries, std::size_t steps_left) {
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::uint64_t entry = entries[i];
    std::size_t at = i;
    while (at > 0 && value_bits(entries[at - 1]) > value_bits(entry)) {
      entries[at] = entries[at - 1];
      --at;
    }
    entries[at] = entry;
    if (i - at > steps_left) return false;
    steps_left -= i - at;
  }
  return true;
}

// Stable, by kDigitBits bits of the entries from `shift` on.
void sort_by_digit(std::span<const std::uint64_t> from, std::uint64_t* to, int shift) {
  static thread_local Places places;
  const std::size_t part_size = from.size() / kParts;
  const auto digit = [shift](std::uint64_t entry) { return entry >> shift & (kDigits - 1); };
  places = {};
  for (std::size_t i = 0; i < part_size; ++i)
    for (std::size_t p = 0; p < kParts; ++p) ++places[p][digit(from[p * part_size + i])];
  for (std::size_t i = kParts * part_size; i < from.size(); ++i)
    ++places[kParts - 1][digit(from[i])];
  std::uint32_t next = 0;
  for (std::size_t d = 0; d < kDigits; ++d)
    for (auto& part : places) {
      const std::uint32_t count = part[d];
      part[d] = next;
      next += count;
    }
  const auto move = [&](std::size_t p, std::uint64_t entry) {
    to[places[p][digit(entry)]++] = entry;
  };
  for (std::size_t i = 0; i < part_size; ++i)
    for (std::size_t p = 0; p < kParts; ++p) move(p, from[p * part_size + i]);
  for (std::size_t i = kParts * part_size; i < from.size(); ++i) move(kParts - 1, from[i]);
}

}  // namespace

// By the upper bits of the values, two digits of them, and then by what is left: that rarely moves
// anything.
void sort_entries(std::span<std::uint64_t> entries) {
  if (entries.size() < kFewEntries) {
    insert_in_order(entries, kFewEntries * kFewEntries);
    return;
  }
  std::uint64_t differing = 0;
  for (const std::uint64_t entry : entries) differing |= entry ^ entries[0];
  differing >>= 32;
  if (differing == 0) return;  // one value
  const int low = 32 + std::max(0, static_cast<int>(std::bit_width(differing)) - 2 * kDigitBits);
  static thread_local std::vector<std::uint64_t> other;
  other.resize(entries.size());
  sort_by_digit(entries, other.data(), low);
  sort_by_digit(other, entries.data(), low + kDigitBits);
  if (!insert_in_order(entries, kStepsBack * entries.size()))
    std::stable_sort(entries.begin(), entries.end(), [](std::uint64_t a, std::uint64_t b) {
      return value_bits(a) < value_bits(b);
    });
}

}  // namespace cellfeed::transform
