// MemoryAccount: what the iterators of one loader, and the buffers it keeps, may hold together.
// Thread-safe. A forked child has an account of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::loader {

class MemoryAccount {
 public:
  explicit MemoryAccount(std::int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  exec::ByteBudget& budget() const {
    return *budget_.get([this] { return std::make_unique<exec::ByteBudget>(limit_bytes_); });
  }

 private:
  const std::int64_t limit_bytes_;
  mutable exec::PerProcess<std::unique_ptr<exec::ByteBudget>> budget_;
};

}  // namespace cellfeed::loader
