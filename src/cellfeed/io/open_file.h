// OpenFile: an open regular file. Internal to the local backends.
// Thread-safe: const after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cellfeed/io/descriptor.h"

namespace cellfeed::io {

// Offset, length and address of a bounced O_DIRECT read are multiples of this: the largest logical
// block size in use.
inline constexpr std::int64_t kDirectAlignment = 4096;
// Linux moves at most 0x7ffff000 bytes in one call.
inline constexpr std::int64_t kMaxCallBytes = 1 << 30;

class OpenFile {
 public:
  // Throws kNotFound, kIo, or kUnsupported where the file system refuses O_DIRECT.
  OpenFile(std::string path, bool direct);

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  bool is_direct() const { return is_direct_; }
  // What this file's O_DIRECT reads must be multiples of, 4096 at most; 1 where not direct.
  std::int64_t alignment() const { return alignment_; }

  // Its fd() is negative where the process had too many files open, and this one lost its name
  // since.
  Descriptor::Use use() const { return Descriptor::Use(*descriptor_); }

  // Whether size and time of change are as they were when it was opened. Where another file took
  // its name while it was not open, it is taken to be as it was.
  bool is_unchanged() const;

  // REQUIRES: the range is inside size(). Throws kCorruptData when the file has become shorter.
  void read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  void read_direct(int fd, std::int64_t offset, std::span<std::byte> out) const;
  // One pread, again after a signal; never 0.
  std::int64_t read_some(int fd, std::int64_t offset, std::byte* out, std::int64_t length) const;

  std::string path_;
  std::unique_ptr<const Descriptor> descriptor_;
  std::int64_t size_ = 0;
  std::int64_t changed_ns_ = 0;
  bool is_direct_ = false;
  std::int64_t alignment_ = 1;
};

struct FreeDirect {
  std::size_t bytes = 0;
  std::uint64_t generation = 0;
  void operator()(std::byte* data) const;
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeDirect>;
// Pages of its own, which a forked child does not get: a device that writes to them while the
// process forks would else write to pages that the parent has no longer. REQUIRES: bytes is a
// multiple of kDirectAlignment. Throws std::bad_alloc.
AlignedBytes allocate_direct_buffer(std::size_t bytes);

// The aligned read that covers the start of an unaligned one and fits a buffer.
struct DirectSpan {
  std::int64_t start = 0;   // aligned offset in the file
  std::int64_t length = 0;  // aligned
  std::int64_t skip = 0;    // bytes in front that nobody asked for
  std::int64_t useful = 0;  // bytes of the request that the read holds
};
DirectSpan direct_span(std::int64_t offset, std::int64_t length, std::int64_t buffer_bytes);

[[noreturn]] void throw_lost(const std::string& path);
[[noreturn]] void throw_shrunken(const std::string& path, std::int64_t offset, std::int64_t length,
                                 std::int64_t size);

}  // namespace cellfeed::io
