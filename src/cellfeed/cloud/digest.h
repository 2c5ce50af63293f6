// Digests and encodings of signatures. Pure.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace cellfeed::cloud {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::string_view text);
std::string_view bytes_of(const Digest& digest);
std::string hex(const Digest& digest);
// SHA-1 in hexadecimal digits: a name, not a protection.
std::string sha1_hex(std::string_view text);

std::string base64(std::string_view bytes);
// Empty where the text is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace cellfeed::cloud
