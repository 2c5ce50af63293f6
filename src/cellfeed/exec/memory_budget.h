// The one rule for memory budgets that users give. Thread-safe: pure.
#pragma once

#include <cstdint>

namespace cellfeed::exec {

// Less than this no part of cellfeed can work in: one piece of rows being read, one being written.
inline constexpr std::int64_t kMinMemoryBudget = 32'000'000;

// Throws kInvalidArgument for a budget that nothing can work in.
void check_memory_budget(std::int64_t bytes);

}  // namespace cellfeed::exec
