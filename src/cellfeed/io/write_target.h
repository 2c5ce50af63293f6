// Where a file is to be written: what is wrong with the place, said about the file asked for and
// never about a temporary name.
#pragma once

#include <string>

namespace cellfeed::io {

// Throws where the folder of `path` is not there, is no folder, or may not be written to. Nothing
// is made.
void require_writable_folder(const std::string& path);
// The same, of a local path.
void require_writable_local_folder(const std::string& path);

// Throws what errno of making a file beside `path` means.
[[noreturn]] void throw_cannot_write(int error_number, const std::string& path);

}  // namespace cellfeed::io
