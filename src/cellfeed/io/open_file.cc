#include "cellfeed/io/open_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kReadBounceBytes = 256 << 10;

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

OpenFile::OpenFile(std::string path, bool direct)
    : path_(std::move(path)),
      descriptor_(std::make_unique<const Descriptor>(path_, direct)),
      is_direct_(direct) {
  const auto used = use();
  struct stat status;
  if (used.fd() < 0) throw_lost(path_);
  if (::fstat(used.fd(), &status) != 0) throw_errno(errno, path_, "get the size of the file");
  size_ = status.st_size;
  changed_ns_ = nanoseconds(status.st_mtim);
  if (is_direct_) alignment_ = direct_alignment(used.fd());
}

bool OpenFile::is_unchanged() const {
  const auto used = use();
  if (used.fd() < 0) return true;
  struct stat status;
  if (::fstat(used.fd(), &status) != 0) throw_errno(errno, path_, "get the size of the file");
  return status.st_size == size_ && nanoseconds(status.st_mtim) == changed_ns_;
}

void OpenFile::read(std::int64_t offset, std::span<std::byte> out) const {
  const auto used = use();
  if (used.fd() < 0) throw_lost(path_);
  if (is_direct_) return read_direct(used.fd(), offset, out);
  while (!out.empty()) {
    const std::int64_t wanted = std::min<std::int64_t>(std::ssize(out), kMaxCallBytes);
    const std::int64_t got = read_some(used.fd(), offset, out.data(), wanted);
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

void OpenFile::read_direct(int fd, std::int64_t offset, std::span<std::byte> out) const {
  // A forked child has not got the thread's buffer.
  thread_local exec::PerProcess<AlignedBytes> kept;
  const AlignedBytes& bounce = kept.get([] { return allocate_direct_buffer(kReadBounceBytes); });
  while (!out.empty()) {
    const DirectSpan span = direct_span(offset, std::ssize(out), kReadBounceBytes);
    const std::int64_t got = read_some(fd, span.start, bounce.get(), span.length) - span.skip;
    if (got <= 0) throw_shrunken(path_, offset, std::ssize(out), size_);
    const auto useful = static_cast<std::size_t>(std::min(got, span.useful));
    std::memcpy(out.data(), bounce.get() + span.skip, useful);
    out = out.subspan(useful);
    offset += static_cast<std::int64_t>(useful);
  }
}

std::int64_t OpenFile::read_some(int fd, std::int64_t offset, std::byte* out,
                                 std::int64_t length) const {
  while (true) {
    const ssize_t got = ::pread(fd, out, static_cast<std::size_t>(length), offset);
    if (got > 0) return got;
    if (got == 0) throw_shrunken(path_, offset, length, size_);
    if (errno != EINTR) {
      throw_errno(errno, path_, fmt::format("read {} bytes at offset {}", length, offset));
    }
  }
}

void FreeDirect::operator()(std::byte* data) const {
  if (exec::fork_generation() == generation) ::munmap(data, bytes);
}

AlignedBytes allocate_direct_buffer(std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  const FreeDirect free{bytes, exec::fork_generation()};
  if (::madvise(data, bytes, MADV_DONTFORK) != 0) {
    const int error_number = errno;
    free(static_cast<std::byte*>(data));
    throw_errno(error_number, {}, "keep a read buffer from forked children");
  }
  return AlignedBytes(static_cast<std::byte*>(data), free);
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

void throw_lost(const std::string& path) {
  throw_error(ErrorKind::kIo, path,
              "another file has its name since it was opened, or none, and with so many files open "
              "it could not be kept: open it again, or raise the limit of open files (ulimit -n)");
}

void throw_shrunken(const std::string& path, std::int64_t offset, std::int64_t length,
                    std::int64_t size) {
  throw_error(ErrorKind::kCorruptData, path,
              "truncated: the file became shorter after it was opened; open it again: offset {}, "
              "wanted {} bytes, size when opened {}",
              offset, length, size);
}

}  // namespace cellfeed::io
