// Plan: which samples each batch of one rank holds (SEMANTICS 2). Pure; reads nothing.
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

enum class Partition { kInterleave, kGroup };
enum class Remainder { kPad, kDrop, kError };

struct PlanOptions {
  std::int64_t batch_size = 1;     // samples of a batch on one rank
  std::int64_t fetch_factor = 1;   // batches of a fetch group
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  Partition partition = Partition::kInterleave;
  Remainder remainder = Remainder::kPad;  // of length mod world_size
  bool drop_last = false;          // drop a last batch shorter than batch_size, on every rank alike
  // Resume: positions of the order already consumed, over all ranks, and the fetch group the order was made with
  // (so that a change of world size keeps the order); 0 = batch_size * world_size * fetch_factor.
  std::int64_t consumed = 0;
  std::int64_t order_step_samples = 0;
  std::int64_t order_fetch_samples = 0;
};

struct BatchPlan {
  std::vector<std::int64_t> rows;
  std::vector<std::uint8_t> is_padding;  // empty when no row is padding
};

class Plan {
 public:
  // Throws kInvalidArgument: batch 0, rank >= world, world 0, a remainder with kError, nothing to sample.
  Plan(std::shared_ptr<const Strategy> strategy, const PlanOptions& options, std::uint64_t seed,
       std::uint64_t epoch);
  std::int64_t n_batches() const;                       // the same on every rank
  std::int64_t batch_rows(std::int64_t batch) const;    // the same on every rank
  void batch(std::int64_t batch, BatchPlan& out) const;
  // Positions of the order that are consumed, over all ranks, once `batches` batches are (for state_dict).
  std::int64_t consumed_after(std::int64_t batches) const;
  const OrderKey& key() const { return key_; }
  const PlanOptions& options() const { return options_; }

 private:
  std::shared_ptr<const Strategy> strategy_;
  PlanOptions options_;
  OrderKey key_;
  std::int64_t length_ = 0;       // positions to deal, after consumed and the remainder policy, over all ranks
};

}  // namespace cellfeed::sampling
