// Paths and addresses as text, before anything is opened and before anything is printed.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed {

// Throws kInvalidArgument for an empty path and for one that holds a NUL byte: the operating system
// would take what stands before it, which is another file.
void require_path(std::string_view path);

// Whether a parameter of an address is one whose value lets anyone act as the one who was given it,
// by what such are called: of AWS, Azure, Google, Akamai and others.
bool is_secret_parameter(std::string_view name);

// The text with the secrets of every URL in it replaced by "***": user and password before an "@",
// and the values of those parameters.
std::string mask_credentials(std::string text);

}  // namespace cellfeed
