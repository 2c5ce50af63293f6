// The cells of an .h5ad file, whatever matrices it has or lacks.
#pragma once

#include <memory>

#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::h5ad {

// Throws what Dataframe throws.
std::unique_ptr<RowStore> open_obs(std::unique_ptr<H5File> file);

}  // namespace cellfeed::format::h5ad
