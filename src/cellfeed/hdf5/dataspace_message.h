// Dataspace message: how many elements there are, and in which shape. HDF5 File Format
// Specification 4.0, IV.A.2.b. Thread-safe: a value.
#pragma once

#include <cstdint>
#include <vector>

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {

inline constexpr int kMaxDimensions = 32;
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

struct Dataspace {
  enum class Kind : std::uint8_t { kScalar, kSimple, kNull };
  Kind kind = Kind::kScalar;
  std::vector<std::uint64_t> shape;      // at most kMaxDimensions
  std::vector<std::uint64_t> max_shape;  // kUnlimited where there is no bound
  std::uint64_t n_elements = 1;          // below 2^63; 0 for kNull
};

// message: its bytes. Throws kCorruptData, also where there are more elements than can be counted.
Dataspace read_dataspace_message(Cursor message);

}  // namespace cellfeed::hdf5
