// Parts of HDF5 files as libhdf5 makes them. Tests only. Not thread-safe: libhdf5 is not.
#pragma once

#include <hdf5.h>

#include <string>

#include "cellfeed/testing/hdf5_oracle.h"

namespace cellfeed::testing {

inline OracleId make_group(hid_t parent, const std::string& name) {
  return OracleId(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

// An attribute of one text of variable length.
inline void write_text(hid_t object, const std::string& name, const std::string& text) {
  const OracleId type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, H5T_VARIABLE);
  const OracleId space(H5Screate(H5S_SCALAR));
  const OracleId attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  const char* value = text.c_str();
  H5Awrite(attribute, type, static_cast<const void*>(&value));
}

}  // namespace cellfeed::testing
