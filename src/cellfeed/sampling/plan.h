// Plan: which samples each batch of one rank holds. Pure; reads nothing.
//
// Batches are dealt in lockstep: step s takes the next world_size x batch_size samples of the
// dealing order. For interleave that is the order itself and rank r takes the positions congruent r
// mod world_size. For group it runs through the fetch groups of all ranks side by side, so that
// rank r reads whole groups; what does not fill a group on every rank is dealt in runs of
// batch_size. Either way the samples consumed are a prefix of the dealing order, which the order_*
// options fix, so that a resumed run deals exactly the rest, whatever its world and batch size.
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

enum class Partition { kInterleave, kGroup };
enum class Remainder { kPad, kDrop, kError };

// Of "interleave", "group" and "auto", which is "group" where several ranks would each inflate the
// chunks of a fetch group that they share. Throws kInvalidArgument.
Partition partition_from_name(std::string_view name, bool is_chunked, std::int64_t world_size);
std::string_view partition_name(Partition partition);
// Of "pad", "drop" and "error". Throws kInvalidArgument.
Remainder remainder_from_name(std::string_view name);

struct PlanOptions {
  std::int64_t batch_size = 1;    // samples of a batch on one rank
  std::int64_t fetch_factor = 1;  // batches of a fetch group
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  Partition partition = Partition::kInterleave;
  Remainder remainder = Remainder::kPad;  // of the samples to deal mod world_size
  bool drop_last = false;  // drop a last batch shorter than batch_size, on every rank alike
  // Resume: samples already consumed, over all ranks, and what the order was made with, so that a
  // change of world size keeps it. 0 stands for: step = world_size * batch_size; batch =
  // batch_size; fetch = what is read together, which is world_size * batch_size * fetch_factor for
  // interleave and batch_size * fetch_factor for group.
  std::int64_t consumed = 0;
  std::int64_t order_step_samples = 0;
  std::int64_t order_fetch_samples = 0;
  std::int64_t order_batch_size = 0;  // matters for group only
};

struct BatchPlan {
  std::vector<std::int64_t> rows;
  std::vector<std::uint8_t> is_padding;  // empty when no row is padding
  // What is drawn for a batch depends on: the order's seed and epoch, the place of each row in the
  // order, and how many samples of the order, over all ranks, lie before the step of the batch.
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::vector<std::int64_t> positions{};
  std::int64_t step_begin = 0;
};

class Plan {
 public:
  // Throws kInvalidArgument: batch 0, rank >= world, world 0, a remainder with kError, nothing to
  // sample, a resume whose batches would mix the groups of a strategy that keeps them apart.
  Plan(std::shared_ptr<const Strategy> strategy, const PlanOptions& options, std::uint64_t seed,
       std::uint64_t epoch);
  std::int64_t n_batches() const;                     // the same on every rank
  std::int64_t batch_rows(std::int64_t batch) const;  // the same on every rank
  void batch(std::int64_t batch, BatchPlan& out) const;
  // Samples of the order that are consumed, over all ranks, once `batches` batches are (for
  // state_dict).
  std::int64_t consumed_after(std::int64_t batches) const;
  // Batches of this rank with the same number share a fetch group: they are best read together.
  // Never decreases.
  std::int64_t fetch_group(std::int64_t batch) const;
  std::int64_t order_length() const { return order_length_; }
  const OrderKey& key() const { return key_; }
  const Strategy& strategy() const { return *strategy_; }
  // With the order_* fields filled in: keep those with the state of a run.
  const PlanOptions& options() const { return options_; }

 private:
  // Position in the order of the dealing index, and how many that follow it are consecutive there.
  struct Run {
    std::int64_t position;
    std::int64_t size;
  };
  Run run_at(std::int64_t dealt) const;
  void require_whole_groups() const;
  void fill_interleaved(std::int64_t first, BatchPlan& out) const;
  void fill_runs(std::int64_t first, BatchPlan& out) const;
  void mark_padding(std::int64_t first, std::int64_t stride, BatchPlan& out) const;

  std::shared_ptr<const Strategy> strategy_;
  PlanOptions options_;
  OrderKey key_;
  std::int64_t order_length_ = 0;
  std::int64_t rank_length_ = 0;  // samples of one rank, padding included
  // Group: dealing indices below lie in rounds that have a whole fetch group for every rank.
  std::int64_t rounds_end_ = 0;
};

}  // namespace cellfeed::sampling
