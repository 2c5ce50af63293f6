// Deals the order of an epoch to ranks and batches.
#include "cellfeed/sampling/plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::sampling {
namespace {

std::int64_t product(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out) || out > std::numeric_limits<std::int64_t>::max() / 4) {
    throw_invalid("{} is too large: {} * {}", what, a, b);
  }
  return out;
}

void require_positive(std::int64_t value, std::string_view name) {
  if (value <= 0) throw_invalid("{} is {}; it must be at least 1", name, value);
}

void require_not_negative(std::int64_t value, std::string_view name) {
  if (value < 0) throw_invalid("{} is {}; it must not be negative", name, value);
}

void check(const PlanOptions& o) {
  require_positive(o.batch_size, "batch_size");
  require_positive(o.fetch_factor, "fetch_factor");
  require_positive(o.world_size, "world_size");
  if (o.rank < 0 || o.rank >= o.world_size) {
    throw_invalid("rank is {}; with world_size {} it must be 0 to {}", o.rank, o.world_size,
                  o.world_size - 1);
  }
  require_not_negative(o.consumed, "consumed");
  require_not_negative(o.order_step_samples, "order_step_samples");
  require_not_negative(o.order_fetch_samples, "order_fetch_samples");
  require_not_negative(o.order_batch_size, "order_batch_size");
}

void fill_order_defaults(PlanOptions& o) {
  const std::int64_t step = product(o.world_size, o.batch_size, "world_size * batch_size");
  const std::int64_t all = product(step, o.fetch_factor, "world_size * batch_size * fetch_factor");
  const bool is_group = o.partition == Partition::kGroup;
  if (o.order_step_samples == 0) o.order_step_samples = step;
  if (o.order_batch_size == 0) o.order_batch_size = o.batch_size;
  if (o.order_fetch_samples == 0) {
    o.order_fetch_samples = is_group ? o.batch_size * o.fetch_factor : all;
  }
  if (!is_group) return;
  if (o.order_step_samples % o.order_batch_size != 0 ||
      o.order_fetch_samples % o.order_batch_size != 0) {
    throw_invalid(
        "order_step_samples {} and order_fetch_samples {} must be multiples of order_batch_size "
        "{}; "
        "give all three as the run that is resumed had them",
        o.order_step_samples, o.order_fetch_samples, o.order_batch_size);
  }
  product(o.order_step_samples, o.order_fetch_samples / o.order_batch_size,
          "order_step_samples * fetch factor");
}

// Samples of every rank for `left` samples that remain.
std::int64_t share(std::int64_t left, const PlanOptions& o) {
  const std::int64_t rest = left % o.world_size;
  if (rest != 0 && o.remainder == Remainder::kError) {
    throw_invalid(
        "{} samples do not divide over world_size {}: {} are left over; choose remainder pad or "
        "drop",
        left, o.world_size, rest);
  }
  const bool pads = rest != 0 && o.remainder == Remainder::kPad;
  return left / o.world_size + (pads ? 1 : 0);
}

}  // namespace

Partition partition_from_name(std::string_view name, bool is_chunked, std::int64_t world_size) {
  if (name == "interleave") return Partition::kInterleave;
  if (name == "group") return Partition::kGroup;
  if (name == "auto")
    return is_chunked && world_size > 1 ? Partition::kGroup : Partition::kInterleave;
  throw_invalid("partition must be \"interleave\", \"group\" or \"auto\", not '{}'", name);
}

std::string_view partition_name(Partition partition) {
  return partition == Partition::kGroup ? "group" : "interleave";
}

Remainder remainder_from_name(std::string_view name) {
  if (name == "pad") return Remainder::kPad;
  if (name == "drop") return Remainder::kDrop;
  if (name == "error") return Remainder::kError;
  throw_invalid("remainder must be \"pad\", \"drop\" or \"error\", not '{}'", name);
}

Plan::Plan(std::shared_ptr<const Strategy> strategy, const PlanOptions& options, std::uint64_t seed,
           std::uint64_t epoch)
    : strategy_(std::move(strategy)), options_(options) {
  if (strategy_ == nullptr) throw_invalid("a plan needs a sampling strategy; got none");
  check(options_);
  fill_order_defaults(options_);
  key_ = {.seed = seed,
          .epoch = epoch,
          .step_samples = options_.order_step_samples,
          .fetch_samples = options_.order_fetch_samples};
  order_length_ = strategy_->length(key_);
  if (order_length_ <= 0) throw_invalid("nothing to sample: {} draws 0 samples", strategy_->name());
  if (options_.consumed > order_length_) {
    throw_invalid(
        "consumed is {}, but the order of {} has {} samples; is this state of another run?",
        options_.consumed, strategy_->name(), order_length_);
  }
  if (strategy_->groups_steps()) require_whole_groups();
  rank_length_ = share(order_length_ - options_.consumed, options_);
  if (options_.drop_last) rank_length_ -= rank_length_ % options_.batch_size;
  if (options_.partition == Partition::kGroup) {
    const std::int64_t round =
        options_.order_step_samples * (options_.order_fetch_samples / options_.order_batch_size);
    rounds_end_ = order_length_ - order_length_ % round;
  }
}

// A batch lies in one step of the order where batches (with interleave: those of all ranks
// together) divide the steps, or the runs of one batch that group deals, and begin at a multiple of
// their size.
void Plan::require_whole_groups() const {
  const bool is_group = options_.partition == Partition::kGroup;
  const std::int64_t step = options_.batch_size * options_.world_size;
  const std::int64_t whole = is_group ? options_.order_batch_size : options_.order_step_samples;
  const std::int64_t part = is_group ? options_.batch_size : step;
  const bool is_short = (order_length_ - options_.consumed) % step != 0;
  if (whole % part == 0 && options_.consumed % part == 0 && !is_short) return;
  throw_invalid(
      "{} keeps one group in {} samples ({} of the run that is resumed), of which {} are consumed; "
      "world_size {} and batch_size {} would mix groups in a batch: continue with sizes whose "
      "product divides both and what is left ({}), such as those of that run, or begin an epoch",
      strategy_->name(), whole, is_group ? "batch_size" : "world_size * batch_size",
      options_.consumed, options_.world_size, options_.batch_size,
      order_length_ - options_.consumed);
}

std::int64_t Plan::n_batches() const {
  return rank_length_ / options_.batch_size + (rank_length_ % options_.batch_size != 0 ? 1 : 0);
}

std::int64_t Plan::batch_rows(std::int64_t batch) const {
  if (batch < 0 || batch >= n_batches()) {
    throw_error(ErrorKind::kOutOfRange, {}, "batch {} is outside the plan, which has {} batches",
                batch, n_batches());
  }
  return std::min(options_.batch_size, rank_length_ - batch * options_.batch_size);
}

std::int64_t Plan::consumed_after(std::int64_t batches) const {
  if (batches < 0 || batches > n_batches()) {
    throw_error(ErrorKind::kOutOfRange, {}, "{} batches are more than the plan has: {}", batches,
                n_batches());
  }
  const std::int64_t of_rank =
      batches == n_batches() ? rank_length_ : batches * options_.batch_size;
  return std::min(order_length_, options_.consumed + of_rank * options_.world_size);
}

void Plan::batch(std::int64_t batch, BatchPlan& out) const {
  const std::int64_t rows = batch_rows(batch);
  out.rows.resize(static_cast<std::size_t>(rows));
  out.positions.resize(static_cast<std::size_t>(rows));
  out.is_padding.clear();
  out.seed = key_.seed;
  out.epoch = key_.epoch;
  const std::int64_t step = options_.consumed + batch * options_.batch_size * options_.world_size;
  out.step_begin = step;
  if (options_.partition == Partition::kInterleave) {
    fill_interleaved(step + options_.rank, out);
    mark_padding(step + options_.rank, options_.world_size, out);
  } else {
    fill_runs(step + options_.rank * rows, out);
    mark_padding(step + options_.rank * rows, 1, out);
  }
}

void Plan::fill_interleaved(std::int64_t first, BatchPlan& out) const {
  const std::int64_t stride = options_.world_size;
  const auto size = static_cast<std::int64_t>(out.rows.size());
  // Only the last row of the last batch can lie past the end.
  const bool wraps = first + (size - 1) * stride >= order_length_;
  const std::span<std::int64_t> rows(out.rows);
  strategy_->samples(key_, first, stride,
                     rows.first(static_cast<std::size_t>(size - (wraps ? 1 : 0))));
  if (wraps) {
    strategy_->samples(key_, (first + (size - 1) * stride) % order_length_, 1, rows.last(1));
  }
  for (std::int64_t i = 0; i < size; ++i)
    out.positions[static_cast<std::size_t>(i)] = first + i * stride;
  if (wraps) out.positions.back() %= order_length_;
}

void Plan::fill_runs(std::int64_t first, BatchPlan& out) const {
  const std::span<std::int64_t> rows(out.rows);
  for (std::size_t done = 0; done < rows.size();) {
    const Run run = run_at((first + static_cast<std::int64_t>(done)) % order_length_);
    const std::size_t size = std::min(rows.size() - done, static_cast<std::size_t>(run.size));
    strategy_->samples(key_, run.position, 1, rows.subspan(done, size));
    std::iota(out.positions.begin() + static_cast<std::ptrdiff_t>(done),
              out.positions.begin() + static_cast<std::ptrdiff_t>(done + size), run.position);
    done += size;
  }
}

Plan::Run Plan::run_at(std::int64_t dealt) const {
  if (dealt >= rounds_end_) return {dealt, order_length_ - dealt};
  const std::int64_t step = options_.order_step_samples;
  const std::int64_t group = options_.order_fetch_samples;
  const std::int64_t batch = options_.order_batch_size;
  const std::int64_t round = step / batch * group;
  const std::int64_t in_round = dealt % round;
  const std::int64_t in_step = in_round % step;
  const std::int64_t in_batch = in_step % batch;
  return {dealt - in_round + in_step / batch * group + in_round / step * batch + in_batch,
          batch - in_batch};
}

void Plan::mark_padding(std::int64_t first, std::int64_t stride, BatchPlan& out) const {
  const auto mark = [&](std::size_t i) {
    if (out.is_padding.empty()) out.is_padding.resize(out.rows.size(), 0);
    out.is_padding[i] = 1;
  };
  for (std::size_t i = 0; i < out.rows.size(); ++i) {
    if (out.rows[i] < 0) {
      out.rows[i] = ~out.rows[i];
      mark(i);
    }
    if (first + static_cast<std::int64_t>(i) * stride >= order_length_) mark(i);
  }
}

std::int64_t Plan::fetch_group(std::int64_t batch) const {
  batch_rows(batch);
  const std::int64_t step = options_.consumed + batch * options_.batch_size * options_.world_size;
  const std::int64_t fetch = options_.order_fetch_samples;
  if (options_.partition == Partition::kInterleave) return step / fetch;
  return step / (options_.order_step_samples / options_.order_batch_size * fetch);
}

}  // namespace cellfeed::sampling
