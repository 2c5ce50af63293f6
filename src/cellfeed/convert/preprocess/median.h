// The median of numbers. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cellfeed::convert {

// Of two in the middle their mean. of_none: where there are no numbers.
template <typename T>
double median_of(std::vector<T> numbers, double of_none) {
  if (numbers.empty()) return of_none;
  std::ranges::sort(numbers);
  const std::size_t half = numbers.size() / 2;
  const auto upper = static_cast<double>(numbers[half]);
  return numbers.size() % 2 == 1 ? upper : (static_cast<double>(numbers[half - 1]) + upper) / 2;
}

}  // namespace cellfeed::convert
