#include "cellfeed/cloud/percent.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstddef>

namespace cellfeed::cloud {

std::string percent_encoded(std::string_view text, std::string_view keep) {
  std::string encoded;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
        std::string_view("-._~").find(c) != std::string_view::npos ||
        keep.find(c) != std::string_view::npos)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char value = 0;
    const char* const at = text.data() + i;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(at + 1, at + 3, value, 16).ptr == at + 3) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace cellfeed::cloud
