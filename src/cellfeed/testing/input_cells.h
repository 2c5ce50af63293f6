// Files opened as the input of a conversion. Tests only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cellfeed/convert/inputs/input_cells.h"

namespace cellfeed::testing {

inline convert::InputCells cells_of(std::vector<std::string> paths,
                                    convert::InputOptions options = {}) {
  options.paths = std::move(paths);
  return convert::open_inputs(options).input;
}

}  // namespace cellfeed::testing
