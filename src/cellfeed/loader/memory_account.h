// MemoryAccount: what the iterators of one loader, and the buffers it keeps, may hold together. A
// part of it is of the buffers alone, so that there is room for them while all else is taken.
// Thread-safe. A forked child has an account of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::loader {

class MemoryAccount {
 public:
  // buffer_bytes: of limit_bytes. REQUIRES: less than these.
  explicit MemoryAccount(std::int64_t limit_bytes, std::int64_t buffer_bytes = 0)
      : limit_bytes_(limit_bytes), buffer_bytes_(buffer_bytes) {}

  // All but the part of the buffers.
  exec::ByteBudget& budget() const { return own().shared; }
  // Null: there is none.
  exec::ByteBudget* buffers() const { return own().buffers.get(); }

  // At most: what each part held at its fullest.
  std::int64_t peak() const {
    Budgets& all = own();
    return all.shared.peak() + (all.buffers ? all.buffers->peak() : 0);
  }

 private:
  struct Budgets {
    exec::ByteBudget shared;
    std::unique_ptr<exec::ByteBudget> buffers;
  };
  Budgets& own() const {
    return *budgets_.get([this] {
      return std::make_unique<Budgets>(
          exec::ByteBudget(limit_bytes_ - buffer_bytes_),
          buffer_bytes_ > 0 ? std::make_unique<exec::ByteBudget>(buffer_bytes_) : nullptr);
    });
  }

  const std::int64_t limit_bytes_;
  const std::int64_t buffer_bytes_;
  mutable exec::PerProcess<std::unique_ptr<Budgets>> budgets_;
};

}  // namespace cellfeed::loader
