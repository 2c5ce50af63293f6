// Opens one matrix of an .h5ad file as a RowStore; one that is stored by columns as an EntryStore.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::h5ad {

// CSR and dense matrices of anndata 0.5 and later; README.md in format/ lists what is read. Errors
// say what is wrong and what to do.
std::unique_ptr<RowStore> open_h5ad(std::unique_ptr<H5File> file, const OpenOptions& options);
std::unique_ptr<RowStore> open_h5ad(const std::string& path, const OpenOptions& options = {});

}  // namespace cellfeed::format::h5ad
