// StoredNumber: how a number lies in a file, and what it becomes here. Thread-safe: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/hdf5/datatype_message.h"

namespace cellfeed::format {

struct StoredNumber {
  DType dtype = DType::kF32;  // what it becomes: float16 is widened to float32
  std::int64_t bytes = 4;     // as stored
  bool is_big_endian = false;

  StoredNumber() = default;
  // As this machine has it.
  StoredNumber(DType native)  // NOLINT(google-explicit-constructor)
      : dtype(native), bytes(static_cast<std::int64_t>(dtype_bytes(native))) {}

  bool is_native() const {
    return !is_big_endian && bytes == static_cast<std::int64_t>(dtype_bytes(dtype));
  }
  // Numbers of this machine for the elements stored. REQUIRES: whole elements; out is
  // aligned for dtype, with room for all of them.
  void to_native(std::span<const std::byte> stored, std::byte* out) const;
  // Integers, those above 2^63 as negative ones. REQUIRES: whole elements.
  std::vector<std::int64_t> to_integers(std::span<const std::byte> stored) const;
};

// Of integers and floats of 8 to 64 bits, of either byte order, and booleans. name: the dataset's,
// for errors. Throws kUnsupported for other types.
StoredNumber stored_number(const hdf5::Datatype& type, const std::string& path,
                           const std::string& name);

}  // namespace cellfeed::format
