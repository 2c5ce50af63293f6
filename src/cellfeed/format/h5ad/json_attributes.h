// Attributes as zarr has them, in JSON, written to HDF5: texts, numbers, booleans, and lists of
// these.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {

// What keeps a value from being an attribute of HDF5: "is null". None where it can be one.
std::optional<std::string> why_no_attribute(const std::string& name, const nlohmann::json& value);

// path: of the file, for messages. REQUIRES: a Hdf5Session around it; why_no_attribute() is none.
void write_json_attribute(hid_t object, const std::string& path, const std::string& name,
                          const nlohmann::json& value);

}  // namespace cellfeed::format::h5ad
