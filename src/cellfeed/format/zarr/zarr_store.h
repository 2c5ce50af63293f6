// Opens one matrix of an AnnData in a zarr store as a RowStore; one that is stored by columns as an
// EntryStore.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/row_store.h"
#include "cellfeed/format/zarr/zarr_tree.h"

namespace cellfeed::format::zarr {

// Whether a directory looks like a zarr store, or a file like a zipped one.
bool is_zarr(const std::string& path);

// Throws what opening the store throws: kCorruptData where there is none. seen: of a folder, as
// RowStore::seen_files.
std::unique_ptr<ZarrTree> open_tree(const std::string& path,
                                    std::shared_ptr<const io::SeenFiles> seen = nullptr);

// As anndata::open_anndata says; README.md in format/ lists what is read.
std::unique_ptr<RowStore> open_zarr(const std::string& path, const OpenOptions& options = {});

}  // namespace cellfeed::format::zarr
