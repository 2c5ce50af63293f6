// Elements of arrays of zarr as libhdf5 writes them. REQUIRES: a Hdf5Session around every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/format/h5ad/zarr_rows.h"
#include "cellfeed/zarr/data_type.h"

namespace cellfeed::format::h5ad {

// Whether elements of this type can be written.
bool is_copied(const cellfeed::zarr::DataType& type);
// In memory and in the file. Texts are of any length, those of zero-padded bytes of theirs, also
// in records: so anndata has them. REQUIRES: is_copied(type).
Handle element_type_of(const cellfeed::zarr::DataType& type);

// Of element_type_of(): as they are stored, but for texts, which are pointers.
class ZarrElements {
 public:
  // Never null.
  const void* data() const;

 private:
  friend std::unique_ptr<ZarrElements> read_elements(ZarrRows& rows, std::int64_t begin,
                                                     std::int64_t n, const std::string& store,
                                                     const std::string& path);
  std::vector<std::string> texts_;
  std::vector<std::byte> elements_;
};

// Rows [begin, begin + n). store and path are for messages. Throws what reading throws,
// kCorruptData for texts that are not UTF-8, kUnsupported for those with a zero byte, which HDF5
// would cut.
std::unique_ptr<ZarrElements> read_elements(ZarrRows& rows, std::int64_t begin, std::int64_t n,
                                            const std::string& store, const std::string& path);

}  // namespace cellfeed::format::h5ad
