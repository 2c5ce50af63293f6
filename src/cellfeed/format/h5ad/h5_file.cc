// An open HDF5 file, after the checks that give better messages than HDF5 does.
#include "cellfeed/format/h5ad/h5_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "cellfeed/format/h5ad/mapped_driver.h"
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

Handle open_file(const std::string& path, std::span<const std::byte> bytes) {
  Handle file = open_mapped(path, bytes);
  if (file) return file;
  const std::string reason = take_hdf5_message();
  if (const auto refused = system_reason(reason))
    throw_error(ErrorKind::kIo, path, "the file cannot be opened: {}", *refused);
  if (reason.find("truncated") != std::string::npos)
    throw_error(ErrorKind::kCorruptData, path,
                "the file is truncated; copy or download it again ({})", reason);
  throw_error(ErrorKind::kCorruptData, path, "HDF5 cannot open the file: {}", reason);
}

}  // namespace

std::optional<H5File::Version> H5File::version_of(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Version{status.st_dev, status.st_ino, status.st_size,
                 std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void H5File::require_unchanged() const {
  const auto now = version_of(path_);
  if (!now || !opened_ || now->device != opened_->device || now->inode != opened_->inode) return;
  if (now->bytes == opened_->bytes && now->changed_ns == opened_->changed_ns) return;
  throw_error(ErrorKind::kCorruptData, path_,
              "the file was written again since it was opened, so rows and labels may not belong "
              "together: open it again");
}

H5File::H5File(std::string path, bool reads_ahead)
    : path_(std::move(path)), opened_(version_of(path_)) {
  if (reads_ahead) {
    std::tie(source_, row_source_) = io::map_local_file_twice(path_);
    ahead_.emplace(*row_source_);
  } else {
    source_ = io::open_local_file(path_, {.access = io::FileAccess::kMap});
  }
  user_block_bytes_ = static_cast<std::uint64_t>(check_bytes(path_, source_->map()));
  const Hdf5Session session;
  id_ = open_file(path_, source_->map());
  bases_ = address_bases(user_block_bytes_);
}

}  // namespace cellfeed::format::h5ad
