// What kind of names genes have, and why names that were asked for may not be found. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/matrix/csr.h"

namespace cellfeed::matrix {

// ENSG00000141510, ENSMUSG00000059552.16, FBgn0003996 and the like of Ensembl.
bool is_ensembl_id(std::string_view name);

// Why the names asked for are not among those of the data, as the end of a message: ids on one side
// and symbols on the other, another case, a version suffix. Empty where nothing is recognised.
std::string explain_missing_genes(std::span<const std::string> missing,
                                  std::span<const GeneAxis* const> axes);

// "'A', 'B', 'C', ... (12 in all)"
std::string some_names(std::span<const std::string> names);

}  // namespace cellfeed::matrix
