// Where files of anndata 0.5 and 0.6 keep the categories of a column: in uns. Thread-safe: pure
// functions.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

// The place for a column of this name, whether something is there or not.
std::string path_in_uns(const std::string& name);

// What is at path_in_uns, for a column of integers all of which are below its length; else null.
// anndata decides by the same rule, since obs and var share these names.
std::unique_ptr<StoredNode> categories_in_uns(const StoredTree& file, const std::string& name,
                                              const ColumnSource& column);

}  // namespace cellfeed::format::anndata
