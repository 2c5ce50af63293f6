// index_of: a LabelIndex over as many rows as there are labels. Tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cellfeed/sampling/label_index.h"

namespace cellfeed::testing {

inline std::shared_ptr<const sampling::LabelIndex> index_of(const std::vector<std::int32_t>& labels,
                                                            sampling::Indices indices = {}) {
  return std::make_shared<const sampling::LabelIndex>(static_cast<std::int64_t>(labels.size()),
                                                      labels, std::move(indices));
}

}  // namespace cellfeed::testing
