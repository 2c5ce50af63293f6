#include "cellfeed/convert/simulate/simulation_plan.h"

#include <algorithm>
#include <numeric>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {
namespace {

// Epochs of the stream: which cell is drawn, and which member of a label's group.
constexpr std::uint64_t kDrawEpoch = 0;
constexpr std::uint64_t kMemberEpoch = 1;

}  // namespace

SimulationPlan::SimulationPlan(std::int64_t n_real, std::int64_t n_simulated, std::uint64_t seed,
                               SimulatedOrder order, const matrix::FixedColumn* labels)
    : n_real_(n_real),
      n_simulated_(n_simulated),
      order_(order),
      draws_(seed, kDrawEpoch, sampling::Purpose::kSimulatedCell),
      members_(seed, kMemberEpoch, sampling::Purpose::kSimulatedCell) {
  if (order == SimulatedOrder::kRandom) return;
  if (order == SimulatedOrder::kLabel) {
    group_by_label(*labels);
  } else {
    group_of_.resize(n_real);
    std::iota(group_of_.begin(), group_of_.end(), std::int64_t{0});
    ends_.assign(n_real, 0);
  }
  count_draws();
}

void SimulationPlan::group_by_label(const matrix::FixedColumn& labels) {
  if (!labels.is_categorical)
    throw_invalid("cells are ordered by a column of labels; this one holds {}: '{}'",
                  dtype_name(labels.dtype), labels.name);
  const auto n_labels = static_cast<std::int64_t>(matrix::category_texts(labels).size());
  members_of_.resize(n_labels + 1);  // the last one: cells without a label
  group_of_.resize(n_real_);
  dispatch_dtype(labels.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < n_real_; ++i) {
      const auto code = static_cast<std::int64_t>(static_cast<const T*>(labels.values)[i]);
      group_of_[i] = code >= 0 && code < n_labels ? code : n_labels;
      members_of_[group_of_[i]].push_back(i);
    }
  });
  matrix::require_intact(labels);
  ends_.assign(members_of_.size(), 0);
}

// The sizes of the groups are those of independent draws, so that every order holds the same kind
// of sample.
void SimulationPlan::count_draws() {
  for (std::int64_t i = 0; i < n_simulated_; ++i)
    ++ends_[group_of_[draws_.bounded(static_cast<std::uint64_t>(i),
                                     static_cast<std::uint64_t>(n_real_))]];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
}

std::int64_t SimulationPlan::source_cell(std::int64_t i) const {
  const auto index = static_cast<std::uint64_t>(i);
  if (order_ == SimulatedOrder::kRandom)
    return static_cast<std::int64_t>(draws_.bounded(index, static_cast<std::uint64_t>(n_real_)));
  const auto group = std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
  if (order_ == SimulatedOrder::kSource) return group;
  const auto& members = members_of_[group];
  return members[members_.bounded(index, members.size())];
}

}  // namespace cellfeed::convert
