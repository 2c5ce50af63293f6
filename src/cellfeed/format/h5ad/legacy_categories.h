// Where files of older versions of anndata keep the categories of a column: behind a reference of
// the codes (0.7), or in uns (0.5, 0.6). Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string>

#include "cellfeed/format/column_values.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::h5ad {

// The dataset that the attribute "categories" of the codes refers to; none where they have no such
// attribute. group: where anndata 0.7 puts the categories of a dataframe ("obs/__categories").
// Throws kUnsupported where it is not there.
std::optional<hdf5::Dataset> referred_categories(const hdf5::File& file, const hdf5::Dataset& codes,
                                                 const std::string& group);

// Where anndata 0.5 and 0.6 keep the categories of a column, if it has any.
std::string path_in_uns(const std::string& name);

// The dataset at path_in_uns, for a column of integers all of which are below their number; else
// none. anndata decides by the same rule, since obs and var share these names.
std::optional<hdf5::Dataset> categories_in_uns(const hdf5::File& file, const std::string& name,
                                               const StoredColumn& column);

}  // namespace cellfeed::format::h5ad
