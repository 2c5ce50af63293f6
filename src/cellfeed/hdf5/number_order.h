// Numbers as they are stored, turned into those of this machine. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "cellfeed/hdf5/datatype_message.h"

namespace cellfeed::hdf5 {

// Swaps the bytes of each element where the type's order is not that of this machine, which is
// little-endian. REQUIRES: a multiple of type.size bytes.
void to_native_order(const Datatype& type, std::span<std::byte> elements);

// IEEE 754 binary16 in native order, widened exactly; a NaN stays one. REQUIRES: two bytes for each
// of out.
void widen_float16(std::span<const std::byte> elements, std::span<float> out);

}  // namespace cellfeed::hdf5
