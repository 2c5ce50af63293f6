// The cells of an AnnData file, whatever matrices it has or lacks.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/row_store.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

// Throws what Dataframe throws.
std::unique_ptr<RowStore> open_obs(std::unique_ptr<const StoredTree> file,
                                   const std::string& format);

}  // namespace cellfeed::format::anndata
