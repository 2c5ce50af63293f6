// LabelMap: labels numbered as the caller says, not as the files do. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cellfeed/matrix/obs_union.h"

namespace cellfeed::collection {

// The numbering of a column of labels, where the files' own is not wanted.
struct LabelMap {
  // Code k is the label labels[k]; without it, the united order of the files counts.
  std::optional<matrix::Categories> labels{};
  // The label that stands for no label: -1. With it, labels that `labels` lacks are -1 too; without
  // it they are an error.
  std::optional<matrix::Category> unknown{};
};

struct MappedLabels {
  matrix::Categories categories;
  bool ordered = false;
  // United code -> mapped code, -1 for missing; null where they are the same.
  std::shared_ptr<const matrix::Recoding> recoding;
};

// Throws kInvalidArgument naming labels of the files that the map lacks, and for a map of labels of
// another kind than the files have.
MappedLabels map_labels(const std::string& column, matrix::UnitedObs&& united, const LabelMap& map);

// first (null: nothing changes), then second.
std::shared_ptr<const matrix::Recoding> compose(
    const std::shared_ptr<const matrix::Recoding>& first,
    const std::shared_ptr<const matrix::Recoding>& second);

}  // namespace cellfeed::collection
