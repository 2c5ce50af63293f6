// Asks the linked HDF5 whether its addresses count the user block.
#include "cellfeed/format/h5ad/user_block.h"

#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {
namespace {

// Larger than all else in the probed file, so that an address tells whether it is counted.
constexpr hsize_t kProbeBlockBytes = 1 << 16;

struct Counts {
  bool contiguous = false;
  bool chunked = false;
};

Counts probe() {
  const ErrorKind kind = ErrorKind::kInternal;
  const Handle creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_userblock(creation.get(), kProbeBlockBytes);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_core(access.get(), 1 << 16, false);
  const Handle file = check_handle(
      H5Fcreate("cellfeed_user_block_probe", H5F_ACC_TRUNC, creation.get(), access.get()), kind, "",
      "making a file in memory");
  const hsize_t length = 4;
  const std::int32_t values[4] = {1, 2, 3, 4};
  const Handle space(H5Screate_simple(1, &length, nullptr));
  const Handle layout(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(layout.get(), 1, &length);
  const auto write = [&](const char* name, hid_t properties) {
    Handle dataset = check_handle(H5Dcreate2(file.get(), name, H5T_STD_I32LE, space.get(),
                                             H5P_DEFAULT, properties, H5P_DEFAULT),
                                  kind, "", "making a dataset in memory");
    H5Dwrite(dataset.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Fflush(file.get(), H5F_SCOPE_LOCAL);
    return dataset;
  };
  const Handle contiguous = write("contiguous", H5P_DEFAULT);
  const Handle chunked = write("chunked", layout.get());
  const hsize_t start = 0;
  unsigned skipped = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t size = 0;
  check_hdf5(H5Dget_chunk_info_by_coord(chunked.get(), &start, &skipped, &address, &size), kind, "",
             "locating a chunk in memory");
  return {.contiguous = H5Dget_offset(contiguous.get()) >= kProbeBlockBytes,
          .chunked = address >= kProbeBlockBytes};
}

}  // namespace

AddressBases address_bases(std::uint64_t user_block_bytes) {
  if (user_block_bytes == 0) return {};
  static const Counts counts = probe();
  return {.contiguous = counts.contiguous ? 0 : user_block_bytes,
          .chunked = counts.chunked ? 0 : user_block_bytes};
}

}  // namespace cellfeed::format::h5ad
