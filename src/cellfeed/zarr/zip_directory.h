// The central directory of a zip file: which values it holds and where. PKWARE APPNOTE 6.3.
// Thread-safe: a value.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::zarr {

struct ZipEntry {
  std::int64_t header_offset = 0;
  std::int64_t stored_bytes = 0;
  std::int64_t bytes = 0;
  bool is_deflated = false;
  std::uint32_t crc32 = 0;
};

// Of several entries of one name the last one; folders are left out. Reads the directory alone.
// Throws kCorruptData, or kUnsupported for what is encrypted, of several disks, or compressed in
// another way.
std::map<std::string, ZipEntry> read_zip_directory(const io::ByteSource& source);

// Where the bytes of an entry begin. Reads its local header. Throws kCorruptData.
std::int64_t find_entry_bytes(const io::ByteSource& source, const std::string& name,
                              const ZipEntry& entry);

}  // namespace cellfeed::zarr
