// An open HDF5 file, after the checks that give better messages than HDF5 does.
#include "cellfeed/format/h5ad/h5_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "cellfeed/io/local_file.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
constexpr std::string_view kLfsPrefix = "version https://git-lfs";

bool starts_with(std::span<const std::byte> bytes, std::int64_t offset, std::string_view text) {
  return offset + std::ssize(text) <= std::ssize(bytes) &&
         std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

// The signature may stand at 0, 512, 1024, 2048, ... (after a user block).
std::int64_t find_signature(std::span<const std::byte> bytes) {
  if (starts_with(bytes, 0, kSignature)) return 0;
  for (std::int64_t at = 512; at < std::ssize(bytes); at *= 2)
    if (starts_with(bytes, at, kSignature)) return at;
  return -1;
}

// Where the HDF5 part starts: behind the user block, if there is one.
std::int64_t check_bytes(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.empty())
    throw Error(ErrorKind::kCorruptData, "the file is empty (0 bytes); copy or download it again",
                path);
  if (starts_with(bytes, 0, kLfsPrefix))
    throw Error(ErrorKind::kCorruptData,
                "this is a Git LFS pointer, not the data; run `git lfs pull` in its repository",
                path);
  const std::int64_t signature = find_signature(bytes);
  if (signature < 0)
    throw Error(ErrorKind::kCorruptData,
                "not an HDF5 file (no HDF5 signature); pass an .h5ad file or a shard directory",
                path);
  return signature;
}

Handle open_file(const std::string& path) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  // Readers of one file on a shared or read-only disk must not fail for want of a lock.
  H5Pset_file_locking(access.get(), false, true);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (id >= 0) return Handle(id);
  const std::string reason = take_hdf5_message();
  if (reason.find("truncated") != std::string::npos)
    throw_error(ErrorKind::kCorruptData, path,
                "the file is truncated; copy or download it again ({})", reason);
  throw_error(ErrorKind::kCorruptData, path, "HDF5 cannot open the file: {}", reason);
}

}  // namespace

H5File::H5File(std::string path, bool reads_ahead) : path_(std::move(path)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) throw_errno(errno, path_, "open");
  change_time_ns_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  source_ = io::open_local_file(path_, {.access = io::FileAccess::kMap});
  if (reads_ahead) {
    row_source_ =
        io::open_local_file(path_, {.access = io::FileAccess::kMap, .random_access = true});
    ahead_.emplace(*row_source_);
  }
  user_block_bytes_ = static_cast<std::uint64_t>(check_bytes(path_, source_->map()));
  const Hdf5Session session;
  id_ = open_file(path_);
  bases_ = address_bases(user_block_bytes_);
}

}  // namespace cellfeed::format::h5ad
