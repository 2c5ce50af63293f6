// The checksum of metadata: Bob Jenkins' lookup3 with an initial value of 0, as HDF5 File Format
// Specification 4.0 names it in III.A.1 and beside every structure that has one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::hdf5 {

std::uint32_t metadata_checksum(std::span<const std::byte> bytes);

}  // namespace cellfeed::hdf5
