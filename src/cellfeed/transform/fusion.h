// Cheaper lists of transforms that give the same rows, bit for bit.
#pragma once

#include <memory>
#include <vector>

#include "cellfeed/transform/transform.h"

namespace cellfeed::transform {

using Transforms = std::vector<std::shared_ptr<const Transform>>;

// Selects genes before what changes values one by one, and makes one pass of NormalizeTotal
// followed by Log1p. Other transforms stay where they are. Takes bound transforms.
Transforms fuse_transforms(Transforms transforms);

}  // namespace cellfeed::transform
