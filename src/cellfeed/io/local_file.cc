#include "cellfeed/io/local_file.h"

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_backends.h"

namespace cellfeed::io {
namespace {

constexpr int kMaxQueueDepth = 4096;

void check_options(const LocalFileOptions& options) {
  if (options.queue_depth < 1 || options.queue_depth > kMaxQueueDepth) {
    throw_invalid("queue_depth must be 1 to {}, not {}", kMaxQueueDepth, options.queue_depth);
  }
  if (options.map_only && options.access != FileAccess::kMap)
    throw_invalid("map_only is for mapped files, which this one is not to be");
  if (options.guarded && options.access != FileAccess::kMap)
    throw_invalid("guarded is for mapped files, which this one is not to be");
  if (options.threads < 1) throw_invalid("threads must be at least 1, not {}", options.threads);
  if (options.direct && options.access == FileAccess::kMap) {
    throw_invalid("direct goes past the page cache, which a mapped file lives in; choose pread");
  }
}

}  // namespace

std::unique_ptr<ByteSource> open_local_file(const std::string& path,
                                            const LocalFileOptions& options) {
  check_options(options);
  OpenFile file(path, options.direct);
  switch (options.access) {
    case FileAccess::kMap:
      return make_mapped_source(std::make_shared<const OpenFile>(std::move(file)), options);
    case FileAccess::kPread:
      return make_pread_source(std::move(file), options, "pread");
    case FileAccess::kUring:
      break;
  }
  if (!is_uring_allowed(options.queue_depth)) {
    return make_pread_source(std::move(file), options, "pread (io_uring refused)");
  }
  return make_uring_source(std::move(file), options);
}

std::pair<std::unique_ptr<ByteSource>, std::unique_ptr<ByteSource>> map_local_file_twice(
    const std::string& path) {
  const auto file = std::make_shared<const OpenFile>(path, false);
  return {make_mapped_source(file, {.guarded = true}),
          make_mapped_source(file, {.random_access = true, .guarded = true})};
}

}  // namespace cellfeed::io
