// Texts of URLs, with %XX for what has a meaning there. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed::cloud {

// With %XX for all but letters, digits, "-._~" and what keep holds.
std::string percent_encoded(std::string_view text, std::string_view keep = {});
// A "+" is a space.
std::string percent_decoded(std::string_view text);

}  // namespace cellfeed::cloud
