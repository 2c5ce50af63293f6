// Superblock, versions 0 to 3.
#include "cellfeed/hdf5/superblock.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/io/stand_in.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
constexpr std::uint64_t kFirstUserBlock = 512;
constexpr std::uint64_t kMaxBytes = 160;  // of version 1 with addresses of 8 bytes
constexpr std::string_view kSuperblock = "superblock";

bool starts_with(const FileBytes& file, std::uint64_t at, std::string_view text) {
  return file.holds(at, text.size()) &&
         std::memcmp(file.read(at, text.size()).view().data(), text.data(), text.size()) == 0;
}

// At 0, 512, 1024, 2048, ...
std::uint64_t find_signature(const FileBytes& file) {
  if (starts_with(file, 0, kSignature)) return 0;
  std::vector<AddressRange> places;
  for (std::uint64_t at = kFirstUserBlock; at < file.size(); at *= 2)
    places.push_back({at, kMaxBytes});
  file.fetch(places);
  for (const AddressRange& place : places)
    if (starts_with(file, place.address, kSignature)) return place.address;
  const auto n = std::min<std::uint64_t>(file.size(), io::kStandInBytes);
  const io::Bytes begin = file.read(0, n);
  io::refuse_stand_in({reinterpret_cast<const char*>(begin.view().data()), begin.view().size()},
                      file.path());
  throw_error(ErrorKind::kCorruptData, file.path(),
              "not an HDF5 file (no HDF5 signature); pass an .h5ad file or a shard directory");
}

void check_size(int n_bytes, const char* what, const Cursor& at) {
  if (n_bytes != 2 && n_bytes != 4 && n_bytes != 8)
    at.refuse("{} of {} bytes are not readable", what, n_bytes);
}

// The stored base and end move with a user block that was put before the file or taken away.
void check_end(const FileBytes& file, std::uint64_t begin, Address stored_base,
               Address stored_end) {
  const std::uint64_t length = stored_end - stored_base;
  if (stored_end < stored_base || length > file.size() - begin)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "the file is truncated; copy or download it again: size {}, {} expected",
                file.size(), begin + length);
}

Superblock read_version_0(FileBytes& file, Cursor at, std::uint64_t begin, int version) {
  at.skip(4);
  const int offset_size = at.u8();
  const int length_size = at.u8();
  check_size(offset_size, "offsets", at);
  check_size(length_size, "lengths", at);
  at.skip(1 + 2 + 2 + 4 + (version == 1 ? 4 : 0));
  file.set_superblock(begin, offset_size, length_size);
  const Address base = at.read_address();
  at.skip(static_cast<std::uint64_t>(offset_size));
  const Address end = at.read_address();
  at.skip(static_cast<std::uint64_t>(offset_size));
  at.skip(static_cast<std::uint64_t>(offset_size));  // the root's entry: the offset of its name
  const Address root = at.read_address();
  check_end(file, begin, base, end);
  return {.version = version, .root_header = root};
}

Superblock read_version_2(FileBytes& file, Cursor at, std::uint64_t begin, int version) {
  const int offset_size = at.u8();
  const int length_size = at.u8();
  check_size(offset_size, "offsets", at);
  check_size(length_size, "lengths", at);
  at.skip(1);
  file.set_superblock(begin, offset_size, length_size);
  const Address base = at.read_address();
  const Address extension = at.read_address();
  const Address end = at.read_address();
  const Address root = at.read_address();
  at.expect_checksum();
  check_end(file, begin, base, end);
  return {.version = version, .root_header = root, .extension = extension};
}

}  // namespace

Superblock read_superblock(FileBytes& file) {
  if (file.size() == 0)
    throw Error(ErrorKind::kCorruptData, "the file is empty (0 bytes); copy or download it again",
                file.path());
  const std::uint64_t begin = find_signature(file);
  Cursor at(file, begin, std::min(kMaxBytes, file.size() - begin), kSuperblock);
  at.expect_signature(kSignature);
  const int version = at.u8();
  if (version > 3) at.refuse("version {} is not readable", version);
  return version < 2 ? read_version_0(file, std::move(at), begin, version)
                     : read_version_2(file, std::move(at), begin, version);
}

}  // namespace cellfeed::hdf5
