// An open HDF5 file, and whether it is still the one that was opened.
#include "cellfeed/format/h5ad/h5_file.h"

#include <sys/stat.h>

#include <tuple>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::format::h5ad {

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
}

}  // namespace cellfeed::format::h5ad
