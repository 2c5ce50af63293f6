// What to add to the addresses HDF5 gives for a file with a user block (files written by Julia have
// one).
#pragma once

#include <cstdint>

namespace cellfeed::format::h5ad {

struct AddressBases {
  std::uint64_t contiguous = 0;  // to H5Dget_offset
  std::uint64_t chunked = 0;     // to H5Dget_chunk_info_by_coord
};

// Versions of HDF5 differ in whether these addresses count the user block, so the linked one is
// asked, once, with a file in memory. REQUIRES: a Hdf5Session.
AddressBases address_bases(std::uint64_t user_block_bytes);

}  // namespace cellfeed::format::h5ad
