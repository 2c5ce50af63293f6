#include "cellfeed/format/h5ad/hdf5_output.h"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::size_t kCopiedBytes = std::size_t{4} << 20;

// HDF5 opens by path: what it opened has to be the file that was made.
void require_same_file(const Handle& file, const io::TempFile& made) {
  void* opened = nullptr;
  struct stat ours;
  struct stat theirs;
  if (H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &opened) < 0 || ::fstat(made.fd(), &ours) != 0 ||
      ::fstat(*static_cast<const int*>(opened), &theirs) != 0 || ours.st_ino != theirs.st_ino ||
      ours.st_dev != theirs.st_dev)
    throw Error(ErrorKind::kIo, "the file was replaced while it was made; run again", made.path());
}

}  // namespace

Hdf5Output::Hdf5Output(const io::FileTarget& target, io::OnExisting on_existing)
    : local_(target.directory().is_local()
                 ? target
                 : io::FileTarget(io::scratch_directory(target.directory()), "cellfeed.h5ad"),
             target.directory().is_local() ? on_existing : io::OnExisting::kReplace) {
  if (!target.directory().is_local()) remote_.emplace(target, on_existing);
}

std::string Hdf5Output::place() const {
  if (!remote_) return local_.path();
  return fmt::format("{} (made in {}; TMPDIR names another place)", remote_->path(), local_.path());
}

Handle Hdf5Output::create_file() const {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_file_locking(access.get(), false, true);
  Handle file =
      check_written(H5Fcreate(local_.temp_path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                    place(), "making the file");
  require_same_file(file, local_);
  return file;
}

void Hdf5Output::publish() {
  if (!remote_) return local_.publish();
  const auto written = io::open_file(local_.temp_path(), {.access = io::FileAccess::kPread});
  std::vector<std::byte> part(kCopiedBytes);
  for (std::int64_t at = 0; at < written->size(); at += std::ssize(part)) {
    const auto n = std::min(std::ssize(part), written->size() - at);
    const std::span<std::byte> piece(part.data(), static_cast<std::size_t>(n));
    written->read(at, piece);
    remote_->append(piece);
  }
  remote_->commit();
}

}  // namespace cellfeed::format::h5ad
