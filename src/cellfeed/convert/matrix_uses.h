// What a file's matrices are and what would be done with them, for info. Pure but for reading
// metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cellfeed/format/matrix_list.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

// What would be done with a matrix that is asked for.
enum class MatrixUse {
  kRows,     // its rows are read as they are
  kCache,    // its rows are written once to a cache
  kRefused,  // reason says why
};

struct MatrixInFile {
  format::MatrixDescription stored;
  MatrixUse use = MatrixUse::kRows;
  std::string reason;     // of kRefused
  std::string row_cache;  // of kCache: where
  bool has_cached_rows = false;
};

// Each one is opened, so that what is said is what opening it says.
std::vector<MatrixInFile> describe_matrices(const std::string& path,
                                            const format::OpenOptions& options);

std::string matrices_text(const std::vector<MatrixInFile>& matrices);
nlohmann::ordered_json matrices_json(const std::vector<MatrixInFile>& matrices);

}  // namespace cellfeed::convert
