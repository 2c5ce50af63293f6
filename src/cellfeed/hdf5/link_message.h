// Link message: a member of a group. HDF5 File Format Specification 4.0, IV.A.2.g.
// Thread-safe: a value.
#pragma once

#include <cstdint>
#include <string>

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {

enum class LinkKind : std::uint8_t { kHard, kSoft, kExternal, kUserDefined };

struct Link {
  std::string name;
  LinkKind kind = LinkKind::kHard;
  Address address = kUndefinedAddress;  // kHard: of the object header
  std::string target;                   // kSoft, kExternal: a path
  std::string file;                     // kExternal
};

// message: its bytes. Throws kCorruptData.
Link read_link_message(Cursor message);

}  // namespace cellfeed::hdf5
