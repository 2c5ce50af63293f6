// Opens a matrix in Matrix Market form, and the lists beside it, as an EntryStore.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/entry_store.h"

namespace cellfeed::format::tenx {

// Cells by their barcodes, genes by their symbols where there are some. Errors say what is wrong
// and what to do. REQUIRES: is_mtx(path).
std::unique_ptr<EntryStore> open_mtx(const std::string& path, const OpenOptions& options = {});

}  // namespace cellfeed::format::tenx
