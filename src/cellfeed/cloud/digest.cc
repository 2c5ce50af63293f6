#include "cellfeed/cloud/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "cellfeed/base/error.h"

namespace cellfeed::cloud {
namespace {

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// A shorter one is at the begin.
Digest digest_of(std::string_view text, const EVP_MD* algorithm) {
  Digest digest{};
  unsigned int n = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &n, algorithm, nullptr) != 1)
    throw Error(ErrorKind::kInternal, "SHA-256 and SHA-1 are not available");
  return digest;
}

}  // namespace

Digest sha256(std::string_view text) { return digest_of(text, EVP_sha256()); }

Digest hmac_sha256(std::string_view key, std::string_view text) {
  Digest digest{};
  unsigned int n = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), as_bytes(text), text.size(),
           digest.data(), &n) == nullptr)
    throw Error(ErrorKind::kInternal, "HMAC with SHA-256 is not available");
  return digest;
}

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha1_hex(std::string_view text) {
  constexpr std::size_t kDigits = 40;
  return hex(digest_of(text, EVP_sha1())).substr(0, kDigits);
}

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), as_bytes(bytes),
                                static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(n));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  const std::size_t n_letters = text.find_last_not_of('=') + 1;
  const std::size_t n_padding = text.size() - n_letters;
  if (text.size() % 4 != 0 || n_padding > 2) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), as_bytes(text),
                                static_cast<int>(text.size()));
  if (n < 0) return std::nullopt;
  // What the padding stands for is counted as bytes.
  bytes.resize(static_cast<std::size_t>(n) - n_padding);
  return bytes;
}

}  // namespace cellfeed::cloud
