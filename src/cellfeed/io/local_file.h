// Local files as ByteSources: memory-mapped, read with pread, or read with io_uring.
// Thread-safe, fork-safe (a forked child makes its own rings and threads).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

enum class FileAccess {
  kMap,    // best when the page cache holds the file: map() needs no copy
  kPread,  // slow or network disks, where a page fault at a time is too slow
  kUring,  // many small random reads of a cold file; pread where the kernel refuses io_uring
};

struct LocalFileOptions {
  FileAccess access = FileAccess::kMap;
  // The file will be read here and there: the kernel reads no further than asked. Saves most of the
  // disk traffic of random rows, and makes a cold read from front to back slower.
  bool random_access = false;
  // kMap: the descriptor is closed once the file is mapped, so that many files can stay open. Bytes
  // are then read through map() alone: is_cached, will_read and is_unchanged know nothing.
  bool map_only = false;
  // kMap: a file that is shortened while it is mapped, or whose disk fails, reads as zeros and has
  // has_lost_pages(), which readers of map() ask before they use what they read. Else the process
  // is ended by SIGBUS.
  bool guarded = false;
  // Past the page cache (O_DIRECT), for a file read once that would evict everything else. Costs a
  // copy and 4 KiB granularity. Not with kMap.
  bool direct = false;
  // kUring: reads in flight, 1 to 4096, of all files of this process with that depth. More keeps
  // deep devices busy; direct reads that are not aligned cost a buffer of 128 KiB each.
  int queue_depth = 64;
  // kPread: threads that share a read_many, the caller among them.
  int threads = 4;
};

// Throws kNotFound, kIo (no permission, not a regular file), kUnsupported (direct is refused) or
// kInvalidArgument. An empty file is legal. backend_name() says "mmap", "pread", "io_uring", or
// "pread (io_uring refused)".
std::unique_ptr<ByteSource> open_local_file(const std::string& path,
                                            const LocalFileOptions& options = {});

// Two guarded maps of one file on one descriptor: for reading from front to back, and here and
// there. Throws what open_local_file throws.
std::pair<std::unique_ptr<ByteSource>, std::unique_ptr<ByteSource>> map_local_file_twice(
    const std::string& path);

}  // namespace cellfeed::io
