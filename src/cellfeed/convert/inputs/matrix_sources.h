// MatrixSources: further matrices of the cells of a conversion or export: layers and obsm.
// Thread-safe, as Sources.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"

namespace cellfeed::convert {

struct MatrixSource {
  std::string name;  // "layers/NAME", "obsm/NAME"
  std::unique_ptr<Sources> sources;
};

// "layers/NAME" and "obsm/NAME" of names as users write them, each once. Throws kInvalidArgument
// for repeated ones, and those that cannot stand beside X.
std::vector<std::string> matrix_names(const std::vector<std::string>& layers,
                                      const std::vector<std::string>& obsm);

// Those beside the first. Throws kInvalidArgument for one that cannot stand beside X, and for a
// layer that has other genes than the first.
std::vector<MatrixSource> matrices_of(const InputCells& input);

}  // namespace cellfeed::convert
