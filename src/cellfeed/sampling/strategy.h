// Strategy: the order of an epoch as a pure function of (seed, epoch, position), with random
// access.
//
// To add a strategy: derive from Strategy, keep memory O(1), O(classes) or O(blocks), write its
// algorithm down in docs/sampling.md with test vectors, and run testing/strategy_conformance.h on
// it.
//
// Thread-safe: immutable; all methods may be called from several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cellfeed::sampling {

// All that an order depends on, besides the strategy's own settings.
struct OrderKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  // Samples of one step over all ranks (world size x batch size); batches of one group are aligned
  // to it.
  std::int64_t step_samples = 1;
  // Consecutive positions that are read, and for some strategies permuted, together: fetch_factor x
  // step_samples.
  std::int64_t fetch_samples = 1;
};

// Shared from this, so that the Python module hands out the C++ owner itself and the last reference
// may be dropped on any thread, also while the interpreter shuts down.
class Strategy : public std::enable_shared_from_this<Strategy> {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  // Positions of one epoch. 1e10 and more are legal.
  virtual std::int64_t length(const OrderKey& key) const = 0;
  // out[i] = the sample at position begin + i * stride. A sample s is a row number >= 0; a repeated
  // row that only fills up a batch (GroupSampling) is written as ~s. REQUIRES: all positions in [0,
  // length).
  virtual void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                       std::span<std::int64_t> out) const = 0;
  // Rows of the collection this strategy was made for.
  virtual std::int64_t n_rows() const = 0;
  // Changes whenever the order could: refused on resume when different.
  virtual std::uint64_t fingerprint() const = 0;
  // True where positions [k step, (k + 1) step) hold samples of one group, which batches must not
  // mix; step = key.step_samples.
  virtual bool groups_steps() const { return false; }
  // Consecutive rows read together on average; for cellfeed plan.
  virtual std::int64_t block_size() const { return 1; }
};

}  // namespace cellfeed::sampling
