// Opens one matrix of an AnnData file as a RowStore; one that is stored by columns as an
// EntryStore.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/row_store.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

// CSR and dense matrices of anndata 0.5 and later; README.md in format/ lists what is read. Errors
// say what is wrong and what to do. format: what StoreInfo calls it. Without a layer, obs alone.
std::unique_ptr<RowStore> open_anndata(std::unique_ptr<const StoredTree> file,
                                       const std::string& format, const OpenOptions& options);

}  // namespace cellfeed::format::anndata
