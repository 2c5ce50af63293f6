// Types and elements that were read of one HDF5 file as libhdf5 writes them to another.
// REQUIRES: a Hdf5Session around every call.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/hdf5/datatype_message.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::format::h5ad {

// Whether elements of this type are written again as they were: numbers, texts, booleans and
// enumerations, and compounds and arrays of these; not references, which mean a place in a file.
bool is_copied(const hdf5::Datatype& type);

// As MemoryElements has them; also the type to make a dataset or an attribute of. REQUIRES:
// is_copied(type).
Handle element_type(const hdf5::Datatype& type);

// Elements of element_type(): as they were stored, but for texts of variable length, which are
// pointers. Lifetime: the stored bytes outlive it.
class MemoryElements {
 public:
  // Throws kCorruptData. REQUIRES: is_copied(type), whole elements.
  MemoryElements(const hdf5::FileBytes& file, const hdf5::Datatype& type,
                 std::span<const std::byte> stored);
  // Never null.
  const void* data() const;

 private:
  std::vector<std::string> texts_;
  std::vector<std::byte> owned_;
  std::span<const std::byte> elements_;
};

}  // namespace cellfeed::format::h5ad
