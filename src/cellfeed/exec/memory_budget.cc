#include "cellfeed/exec/memory_budget.h"

#include "cellfeed/base/error.h"

namespace cellfeed::exec {

void check_memory_budget(std::int64_t bytes) {
  if (bytes < kMinMemoryBudget)
    throw_invalid("memory_budget must be at least 32MB ({} bytes): {} bytes", kMinMemoryBudget,
                  bytes);
}

}  // namespace cellfeed::exec
