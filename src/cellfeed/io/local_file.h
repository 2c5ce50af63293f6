// Local files as ByteSources: memory-mapped, read with pread, or read with io_uring.
// Thread-safe, fork-safe (a forked child makes its own ring and threads).
#pragma once

#include <memory>
#include <string>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

enum class FileAccess {
  kMap,    // best when the page cache holds the file: reads are copies, map() avoids even those
  kPread,  // for files on slow or network disks where a page fault at a time is too slow
  kUring,  // many small random reads of a cold file; falls back to pread where the kernel refuses
           // io_uring
};

struct LocalFileOptions {
  FileAccess access = FileAccess::kMap;
  // Past the page cache (O_DIRECT), for files read once that would evict everything else. Not for
  // kMap.
  bool direct = false;
  // kUring: reads in flight per ring. More keeps deep devices busy and costs 64 bytes of kernel
  // memory each (with direct, an aligned buffer of the read's size each).
  int queue_depth = 64;
  // kPread: threads that share a read_many, shared between files of the same setting.
  int threads = 4;
};

// Throws kNotFound, kIo (no permission, not a regular file) or kInvalidArgument. An empty file is
// legal.
std::unique_ptr<ByteSource> open_local_file(const std::string& path,
                                            const LocalFileOptions& options = {});

}  // namespace cellfeed::io
