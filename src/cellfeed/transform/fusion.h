// Cheaper lists of transforms that give the same rows.
#pragma once

#include <memory>
#include <vector>

#include "cellfeed/transform/transform.h"

namespace cellfeed::transform {

using Transforms = std::vector<std::shared_ptr<const Transform>>;

// What happens to a row. Columns are chosen once, as early as no total needs the ones that go.
struct Stages {
  // On all genes of the store, each with the total of the values it finds: what comes before the
  // last total.
  Transforms whole_row;
  // Choose columns, in this order.
  Transforms selections;
  // On the genes that are left. Totals are those of the whole row before this stage.
  Transforms kept_genes;
};

// Takes bound transforms. Values change in the order written, as if every selection came last;
// NormalizeTotal followed by Log1p becomes one pass, bit for bit what the two give.
Stages plan_stages(const Transforms& written);

}  // namespace cellfeed::transform
