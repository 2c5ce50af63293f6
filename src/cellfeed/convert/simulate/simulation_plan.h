// SimulationPlan: which real cell each simulated one is drawn from; a pure function of (seed,
// cell). Thread-safe: immutable. Memory: O(real cells), whatever the number of simulated ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/matrix/obs.h"
#include "cellfeed/sampling/random.h"

namespace cellfeed::convert {

enum class SimulatedOrder {
  kRandom,  // as drawn
  kSource,  // copies of one real cell beside each other
  kLabel,   // runs of one label, as in an atlas; copies of one cell far apart
};

class SimulationPlan {
 public:
  // labels: for kLabel, one per real cell. Throws kInvalidArgument when they are not labels.
  SimulationPlan(std::int64_t n_real, std::int64_t n_simulated, std::uint64_t seed,
                 SimulatedOrder order, const matrix::FixedColumn* labels);
  // The real cell behind simulated cell i.
  std::int64_t source_cell(std::int64_t i) const;

 private:
  void count_draws();
  void group_by_label(const matrix::FixedColumn& labels);

  std::int64_t n_real_;
  std::int64_t n_simulated_;
  SimulatedOrder order_;
  sampling::RandomStream draws_;
  sampling::RandomStream members_;
  // Group g holds simulated cells [ends_[g - 1], ends_[g]) and real cells members_of_[g]; for
  // kSource a group is a real cell.
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> group_of_;  // of each real cell
  std::vector<std::vector<std::int64_t>> members_of_;
};

}  // namespace cellfeed::convert
