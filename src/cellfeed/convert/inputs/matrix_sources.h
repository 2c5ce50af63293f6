// MatrixSources: further matrices of the cells of a conversion or export: layers and obsm.
// Thread-safe after open(), as Sources.
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

// The same inputs, joined as `first` was by `options`. Throws what Sources::open throws, and
// kInvalidArgument where a matrix is not of the same cells.
std::vector<MatrixSource> open_matrices(const Sources& first, const SourceOptions& options,
                                        const std::vector<std::string>& names);

// Throws kInvalidArgument where a layer is not of the genes of `first`.
void require_same_genes(const Sources& first, const std::vector<MatrixSource>& matrices);

}  // namespace cellfeed::convert
