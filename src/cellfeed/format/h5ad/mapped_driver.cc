// A virtual file driver of HDF5 (HDF5 Reference Manual, H5FDregister): reads are copies.
#include "cellfeed/format/h5ad/mapped_driver.h"

#include <cstring>
#include <limits>
#include <memory>
#include <new>

namespace cellfeed::format::h5ad {
namespace {

// What HDF5 hands to open; it keeps a copy of its own.
struct Bytes {
  const char* path;
  const std::byte* data;
  std::size_t size;
};

// HDF5 knows the file by its first member.
struct File {
  H5FD_t base{};
  Bytes bytes{};
  haddr_t end_of_allocation = 0;
};

const File& file_of(const H5FD_t* file) { return *reinterpret_cast<const File*>(file); }

H5FD_t* open(const char* name, unsigned flags, hid_t access, haddr_t) {
  const auto* bytes = static_cast<const Bytes*>(H5Pget_driver_info(access));
  // Another name is that of another file, which an external link names.
  if (bytes == nullptr || std::strcmp(name, bytes->path) != 0 || (flags & H5F_ACC_RDWR) != 0)
    return nullptr;
  auto* file = new (std::nothrow) File;
  if (file == nullptr) return nullptr;
  file->bytes = *bytes;
  return &file->base;
}

herr_t close(H5FD_t* file) {
  delete reinterpret_cast<File*>(file);
  return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
  return file_of(file).end_of_allocation;
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  reinterpret_cast<File*>(file)->end_of_allocation = address;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) { return file_of(file).bytes.size; }

// Past the end are zeros, as in HDF5's own driver.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* out) {
  const Bytes& bytes = file_of(file).bytes;
  if (address == HADDR_UNDEF) return -1;
  const std::size_t begin = address < bytes.size ? static_cast<std::size_t>(address) : bytes.size;
  const std::size_t n = std::min(size, bytes.size - begin);
  std::memcpy(out, bytes.data + begin, n);
  std::memset(static_cast<std::byte*>(out) + n, 0, size - n);
  return 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

hid_t driver() {
  static hid_t registered = H5I_INVALID_HID;
  if (registered >= 0) return registered;
  static const H5FD_mem_t kFreeLists[] = H5FD_FLMAP_SINGLE;
  H5FD_class_t definition{};
  definition.name = "cellfeed-map";
  definition.maxaddr = static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max());
  definition.fc_degree = H5F_CLOSE_WEAK;
  definition.fapl_size = sizeof(Bytes);
  definition.open = open;
  definition.close = close;
  definition.get_eoa = end_of_allocation;
  definition.set_eoa = set_end_of_allocation;
  definition.get_eof = end_of_file;
  definition.read = read;
  definition.write = write;
  std::memcpy(definition.fl_map, kFreeLists, sizeof kFreeLists);
  registered = H5FDregister(&definition);
  return registered;
}

}  // namespace

Handle open_mapped(const std::string& path, std::span<const std::byte> bytes) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  const Bytes info{path.c_str(), bytes.data(), bytes.size()};
  if (H5Pset_driver(access.get(), driver(), &info) < 0) return Handle();
  return Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
}

}  // namespace cellfeed::format::h5ad
