// Opens the matrix of a 10x .h5 file as a RowStore.
#pragma once

#include <memory>

#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::tenx {

// Cells by their barcodes, genes by their symbols. Errors say what is wrong and what to do.
// REQUIRES: is_tenx.
std::unique_ptr<RowStore> open_tenx(std::unique_ptr<H5File> file, const OpenOptions& options = {});

}  // namespace cellfeed::format::tenx
