// Opens a CSC matrix of an AnnData file as an EntryStore.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

bool is_csc(const StoredTree& file, const std::string& layer);

// layer: the path of the matrix in the file. REQUIRES: is_csc().
std::unique_ptr<EntryStore> open_csc(std::unique_ptr<const StoredTree> file,
                                     const std::string& format, const std::string& layer);

}  // namespace cellfeed::format::anndata
