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
  hdf5_ = hdf5::File::open(source_);
  user_block_bytes_ = hdf5_->bytes().base_address();
  const Hdf5Session session;
  id_ = open_file(path_, source_->map());
  bases_ = address_bases(user_block_bytes_);
}

}  // namespace cellfeed::format::h5ad
