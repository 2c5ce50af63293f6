// Gaps in the times of an entity: steps of more than three times its median one. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace cellfeed::series {

// From a time to a later one.
inline std::uint64_t step_between(std::int64_t earlier, std::int64_t later) {
  return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}

// A step is a gap where it is more than so many median ones.
inline constexpr std::uint64_t kMediansOfGap = 3;
inline std::uint64_t longest_step(std::int64_t median) {
  return static_cast<std::uint64_t>(median) * kMediansOfGap;
}

// Steps of one entity, counted in constant memory.
class StepCounts {
 public:
  void add(std::uint64_t step);
  // The median step, the lower one of two; longer by a sixteenth at most where steps are of many
  // lengths. 0 where there is no step.
  std::int64_t median() const;

 private:
  // Numbers below 16, and then those whose leading five bits are the same.
  static constexpr std::size_t kBuckets = 64 * 16;
  std::array<std::int64_t, kBuckets> counts_{};
  std::array<std::uint64_t, kBuckets> longest_{};
  std::int64_t n_ = 0;
};

}  // namespace cellfeed::series
