#include "cellfeed/io/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kBounceBytes = 256 << 10;
// Linux moves at most 0x7ffff000 bytes in one call.
constexpr std::int64_t kMaxReadBytes = 1 << 30;

int open_or_throw(const std::string& path, bool direct) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
  if (fd >= 0) return fd;
  if (direct && errno == EINVAL) {
    throw_error(ErrorKind::kUnsupported, path,
                "the file system cannot read past the page cache; open it without direct");
  }
  throw_errno(errno, path, "open the file for reading");
}

// Disks are often content with less than the largest block, so that short rows cost fewer bytes.
std::int64_t direct_alignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx status;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    const std::int64_t wanted = std::max(status.stx_dio_offset_align, status.stx_dio_mem_align);
    if (wanted > 0 && kDirectAlignment % wanted == 0) return wanted;
  }
#else
  static_cast<void>(fd);
#endif
  return kDirectAlignment;
}

}  // namespace

OpenFile::OpenFile(std::string path, bool direct) : path_(std::move(path)), is_direct_(direct) {
  // A pipe would block in open, so the kind of file comes first.
  struct stat status;
  if (::stat(path_.c_str(), &status) != 0) throw_errno(errno, path_, "find the file");
  if (S_ISDIR(status.st_mode)) {
    throw_error(ErrorKind::kIo, path_, "is a directory where a file is needed");
  }
  if (!S_ISREG(status.st_mode)) {
    throw_error(ErrorKind::kIo, path_, "is not a regular file; copy its contents to one");
  }
  fd_ = open_or_throw(path_, direct);
  if (::fstat(fd_, &status) != 0) {
    const int error_number = errno;
    ::close(fd_);
    throw_errno(error_number, path_, "get the size of the file");
  }
  size_ = status.st_size;
  if (is_direct_) alignment_ = direct_alignment(fd_);
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OpenFile::read(std::int64_t offset, std::span<std::byte> out) const {
  if (is_direct_) return read_direct(offset, out);
  while (!out.empty()) {
    const std::int64_t wanted = std::min<std::int64_t>(std::ssize(out), kMaxReadBytes);
    const std::int64_t got = read_some(offset, out.data(), wanted);
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

void OpenFile::read_direct(std::int64_t offset, std::span<std::byte> out) const {
  thread_local const AlignedBytes bounce = allocate_direct_buffer(kBounceBytes);
  while (!out.empty()) {
    const DirectSpan span = direct_span(offset, std::ssize(out), kBounceBytes);
    const std::int64_t got = read_some(span.start, bounce.get(), span.length) - span.skip;
    if (got <= 0) throw_shrunken(path_, offset, std::ssize(out), size_);
    const auto useful = static_cast<std::size_t>(std::min(got, span.useful));
    std::memcpy(out.data(), bounce.get() + span.skip, useful);
    out = out.subspan(useful);
    offset += static_cast<std::int64_t>(useful);
  }
}

std::int64_t OpenFile::read_some(std::int64_t offset, std::byte* out, std::int64_t length) const {
  while (true) {
    const ssize_t got = ::pread(fd_, out, static_cast<std::size_t>(length), offset);
    if (got > 0) return got;
    if (got == 0) throw_shrunken(path_, offset, length, size_);
    if (errno != EINTR) {
      throw_errno(errno, path_, fmt::format("read {} bytes at offset {}", length, offset));
    }
  }
}

void FreeAligned::operator()(std::byte* data) const { std::free(data); }

AlignedBytes allocate_direct_buffer(std::size_t bytes) {
  void* data = std::aligned_alloc(kDirectAlignment, bytes);
  if (data == nullptr) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(data));
}

DirectSpan direct_span(std::int64_t offset, std::int64_t length, std::int64_t buffer_bytes) {
  DirectSpan span;
  span.skip = offset % kDirectAlignment;
  span.start = offset - span.skip;
  span.useful = std::min(length, buffer_bytes - span.skip);
  const std::int64_t blocks = (span.skip + span.useful + kDirectAlignment - 1) / kDirectAlignment;
  span.length = blocks * kDirectAlignment;
  return span;
}

void throw_shrunken(const std::string& path, std::int64_t offset, std::int64_t length,
                    std::int64_t size) {
  throw_error(ErrorKind::kCorruptData, path,
              "truncated: the file became shorter after it was opened; open it again: offset {}, "
              "wanted {} bytes, size when opened {}",
              offset, length, size);
}

}  // namespace cellfeed::io
