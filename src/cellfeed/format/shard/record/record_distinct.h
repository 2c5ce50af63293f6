// DistinctValues: the values of a row, each once, bit by bit. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "cellfeed/format/shard/record/record_value_kind.h"

namespace cellfeed::format::shard::record {

template <typename T>
using Bits = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <typename T>
Bits<T> bits_of(T value) {
  return std::bit_cast<Bits<T>>(value);
}

void sort_words(std::vector<std::uint64_t>& words);

// By open addressing, in a table that stays in the nearest cache as long as few values are there.
template <typename T>
class DistinctValues {
 public:
  void clear() {
    if (slots_.capacity() > kMostKept) *this = {};
    slots_.assign(std::size_t{1} << kFirstBits, {});
    slot_bits_ = kFirstBits;
    seen_.clear();
  }
  // The value's number in order of first sight.
  std::uint32_t insert(T value) {
    std::uint32_t found = 0;
    number(&value, 1, seen_.size() + 1, &found);
    return found;
  }
  // The numbers of n values; false where there are more than `most`.
  bool number(const T* values, std::size_t n, std::size_t most, std::uint32_t* numbers) {
    // Known to the compiler not to change with what is written to numbers.
    Slot* slots = slots_.data();
    int slot_bits = slot_bits_;
    std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < n; ++i) {
      const Bits<T> bits = bits_of(values[i]);
      std::size_t at = slot_of_bits(bits, slot_bits);
      while (slots[at].number != 0 && slots[at].bits != bits) at = (at + 1) & mask;
      std::uint32_t number = slots[at].number;
      if (number == 0) [[unlikely]] {
        if (seen_.size() == most) return false;
        number = add(values[i], slots[at]);
        slots = slots_.data();
        slot_bits = slot_bits_;
        mask = slots_.size() - 1;
      }
      numbers[i] = number - 1;
    }
    return true;
  }
  const std::vector<T>& seen() const { return seen_; }
  // Calls visit(bits, number) of each, as their bits rise.
  template <typename Visit>
  void visit_in_order(const Visit& visit) {
    using Key =
        std::conditional_t<sizeof(T) == 8, std::pair<std::uint64_t, std::uint32_t>, std::uint64_t>;
    thread_local std::vector<Key> keys;
    keys.clear();
    for (std::uint32_t number = 0; number < seen_.size(); ++number) {
      const Bits<T> bits = bits_of(seen_[number]);
      if constexpr (sizeof(T) == 8)
        keys.push_back({bits, number});
      else
        keys.push_back(std::uint64_t{bits} << 32 | number);
    }
    if constexpr (sizeof(T) == 8) {
      std::ranges::sort(keys);
      for (const auto& [bits, number] : keys) visit(bits, number);
    } else {
      sort_words(keys);
      for (const std::uint64_t key : keys)
        visit(static_cast<Bits<T>>(key >> 32), static_cast<std::uint32_t>(key));
    }
    if (keys.capacity() > kMostKept) keys = {};
  }

 private:
  // Few slots are taken, so that most values are found in the first that is looked at.
  static constexpr int kFirstBits = sizeof(T) == 8 ? 9 : 10;  // 8 KiB
  static constexpr std::size_t kSlotsOfValue = 4;
  // From so many on memory counts for more; so many are kept from row to row.
  static constexpr std::size_t kManySlots = 1 << 13, kMostKept = 1 << 16;
  struct Slot {
    Bits<T> bits{};
    std::uint32_t number = 0;  // and one
  };
  std::uint32_t add(T value, Slot& slot) {
    seen_.push_back(value);
    const auto number = static_cast<std::uint32_t>(seen_.size());
    const bool is_large = slots_.size() >= kManySlots;
    if ((is_large ? 2 : kSlotsOfValue) * seen_.size() > slots_.size())
      grow();
    else
      slot = {bits_of(value), number};
    return number;
  }
  void grow() {
    slot_bits_ += slots_.size() >= kManySlots ? 1 : 2;
    slots_.assign(std::size_t{1} << slot_bits_, {});
    const std::size_t mask = slots_.size() - 1;
    for (std::uint32_t number = 0; number < seen_.size(); ++number) {
      const Bits<T> bits = bits_of(seen_[number]);
      std::size_t at = slot_of_bits(bits, slot_bits_);
      while (slots_[at].number != 0) at = (at + 1) & mask;
      slots_[at] = {bits, number + 1};
    }
  }

  int slot_bits_ = 0;
  std::vector<Slot> slots_;
  std::vector<T> seen_;
};

}  // namespace cellfeed::format::shard::record
