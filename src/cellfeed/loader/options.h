// What a loader does, with defaults, units and what raising a number costs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/loader/pinned_memory.h"
#include "cellfeed/loader/token_output.h"
#include "cellfeed/transform/transform.h"

namespace cellfeed::loader {

enum class Output { kCsr, kDense, kTokens };

// How one matrix reaches batches.
struct MatrixOptions {
  Output output = Output::kCsr;
  DType dtype = DType::kF32;
};

struct LoaderOptions {
  Output output = Output::kCsr;
  DType dtype = DType::kF32;  // of the batch's values
  // Of each further matrix of the collection, in its order; empty: as the first one.
  std::vector<MatrixOptions> matrices{};
  Casting casting = Casting::kRound;
  std::vector<std::string> obs{};  // columns that come with each batch
  // Applied in this order, to the first matrix. Of the others those with its axis follow it in
  // which columns are chosen.
  std::vector<std::shared_ptr<const transform::Transform>> transforms{};
  // Of kTokens, which is for the first matrix alone, of floats; null of any other.
  std::shared_ptr<const TokenOutput> tokens{};
  // Bytes of read-ahead, chunks being inflated and kept inflated, and finished batches together, at
  // least exec::kMinMemoryBudget. More lets compressed files inflate each chunk less often. One
  // batch larger than this is still loaded, alone. What the consumer has taken is its own.
  std::int64_t memory_budget = std::int64_t{2} << 30;
  int threads = 0;           // 1 to exec::kMaxThreads; 0: one a processor this process may use
  int prefetch_batches = 0;  // finished batches that may wait; 0: 2 * threads + 2
  // Where batches lie, for copies to a GPU that nobody waits for; null: in ordinary memory, of huge
  // pages.
  std::shared_ptr<PinnedMemory> pinned{};
};

}  // namespace cellfeed::loader
