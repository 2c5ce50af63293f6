// Gene axes that stores share: thousands of files of one atlas name the same genes. Thread-safe.
#pragma once

#include <memory>

#include "cellfeed/matrix/csr.h"

namespace cellfeed::format {

// One of the axes that were shared lately, where one is the same and still in use; else this one.
std::shared_ptr<const matrix::GeneAxis> share_axis(matrix::GeneAxis axis);

}  // namespace cellfeed::format
