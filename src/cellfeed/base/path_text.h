// Paths and addresses as text, before anything is opened and before anything is printed.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed {

// Throws kInvalidArgument for an empty path and for one that holds a NUL byte: the operating system
// would take what stands before it, which is another file.
void require_path(std::string_view path);

// The text with the secrets of every URL in it replaced by "***": user and password before an "@",
// and the values of query keys that sign a request (AWS, Azure, Google).
std::string mask_credentials(std::string text);

}  // namespace cellfeed
