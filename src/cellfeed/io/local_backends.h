// The ways to read a local file. Internal: callers use open_local_file.
#pragma once

#include <memory>
#include <string_view>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/io/open_file.h"

namespace cellfeed::io {

std::unique_ptr<ByteSource> make_mapped_source(std::shared_ptr<const OpenFile> file,
                                               const LocalFileOptions& options);
// REQUIRES: backend_name is a literal.
std::unique_ptr<ByteSource> make_pread_source(OpenFile file, const LocalFileOptions& options,
                                              std::string_view backend_name);
// REQUIRES: is_uring_allowed().
std::unique_ptr<ByteSource> make_uring_source(OpenFile file, const LocalFileOptions& options);

// False where the kernel lacks io_uring or a policy forbids it (containers often do). Throws kIo
// when a ring cannot be made for another reason, such as a limit.
bool is_uring_allowed(int queue_depth);

}  // namespace cellfeed::io
