#include "cellfeed/cloud/staged_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::cloud {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{16} << 20;

}  // namespace

StagedFile::StagedFile(std::string path, Upload upload)
    : path_(std::move(path)), upload_(std::move(upload)), generation_(exec::fork_generation()) {}

StagedFile::~StagedFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool StagedFile::is_open() const {
  return !is_published_ && generation_ == exec::fork_generation();
}

void StagedFile::move_to_disk() {
  std::string name = (std::filesystem::temp_directory_path() / "cellfeed-XXXXXX").string();
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) throw_errno(errno, name, "make a file for what is to be uploaded");
  ::unlink(name.c_str());
  const std::vector<std::byte> bytes = std::exchange(bytes_, {});
  size_ = 0;
  write(0, bytes);
}

void StagedFile::write(std::int64_t offset, std::span<const std::byte> bytes) {
  const std::int64_t end = offset + std::ssize(bytes);
  if (fd_ < 0 && end > kMemoryBytes) move_to_disk();
  if (fd_ < 0) {
    if (std::ssize(bytes_) < end) bytes_.resize(static_cast<std::size_t>(end));
    std::ranges::copy(bytes, bytes_.begin() + offset);
  } else if (!io::write_whole(fd_, bytes, offset)) {
    throw_errno(errno, std::filesystem::temp_directory_path().string(),
                "keep what is to be uploaded (TMPDIR names another place)");
  }
  size_ = std::max(size_, end);
}

void StagedFile::take(int fd, std::int64_t bytes) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) throw_errno(errno, path_, "hold what is to be uploaded");
  if (fd_ >= 0) ::close(fd_);
  fd_ = own;
  bytes_ = {};
  size_ = bytes;
}

void StagedFile::read(std::int64_t offset, std::span<std::byte> out) const {
  if (fd_ < 0) {
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
    return;
  }
  while (!out.empty()) {
    const ssize_t n =
        io::retry_interrupted([&] { return ::pread(fd_, out.data(), out.size(), offset); });
    if (n <= 0) throw_errno(n < 0 ? errno : EIO, path_, "read back what is to be uploaded");
    offset += n;
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

void StagedFile::publish() {
  if (!is_open()) throw_error(ErrorKind::kInternal, path_, "is published already, or of a parent");
  upload_({size_, [this](std::int64_t offset, std::span<std::byte> out) { read(offset, out); }});
  is_published_ = true;
  bytes_ = {};
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace cellfeed::cloud
