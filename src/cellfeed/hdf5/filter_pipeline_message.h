// Data Storage - Filter Pipeline message: what was done to a chunk before it was stored. HDF5 File
// Format Specification 4.0, IV.A.2.l. Thread-safe: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {

struct FilterDescription {
  std::uint16_t id = 0;
  std::string name;  // may be empty
  // A chunk may lack it where applying it failed; its filter mask says so.
  bool is_optional = false;
  std::vector<std::uint32_t> client_values;
};

// In the order of writing: a reader undoes the last one first. At most 32, as many as a filter mask
// has bits. message: its bytes. Throws kCorruptData.
std::vector<FilterDescription> read_filter_pipeline_message(Cursor message);

}  // namespace cellfeed::hdf5
