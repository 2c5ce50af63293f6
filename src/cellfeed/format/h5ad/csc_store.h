// Opens a CSC matrix of an .h5ad file as an EntryStore.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/h5_file.h"

namespace cellfeed::format::h5ad {

bool is_csc(const H5File& file, const std::string& layer);

// layer: the path of the matrix in the file. REQUIRES: is_csc().
std::unique_ptr<EntryStore> open_csc(std::unique_ptr<H5File> file, const std::string& layer);

}  // namespace cellfeed::format::h5ad
