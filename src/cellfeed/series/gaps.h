// Gaps in the times of an entity: steps far longer than its usual one. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace cellfeed::series {

// From a time to a later one.
inline std::uint64_t step_between(std::int64_t earlier, std::int64_t later) {
  return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}

// A step is a gap where it is more than so many usual ones.
inline constexpr std::uint64_t kUsualStepsOfGap = 3;
inline std::uint64_t longest_step(std::int64_t usual) {
  return static_cast<std::uint64_t>(usual) * kUsualStepsOfGap;
}

// Steps of one entity, counted in constant memory.
class StepCounts {
 public:
  void add(std::uint64_t step);
  // The longest step when those of gaps are left out, which one in twenty may be, and one of few:
  // three days where a market is closed at weekends. 0 where there is no step.
  std::int64_t usual() const;

 private:
  // Numbers below 16, and then those whose leading five bits are the same.
  static constexpr std::size_t kBuckets = 64 * 16;
  std::array<std::int64_t, kBuckets> counts_{};
  std::array<std::uint64_t, kBuckets> longest_{};
  std::int64_t n_ = 0;
};

}  // namespace cellfeed::series
