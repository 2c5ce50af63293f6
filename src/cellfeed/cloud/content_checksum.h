// What a store says that the bytes of an object sum up to, and what those that came do.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cellfeed::cloud {

enum class ChecksumKind { kCrc32, kCrc32c, kCrc64Nvme, kMd5 };

struct ContentChecksum {
  ChecksumKind kind = ChecksumKind::kCrc32c;
  std::string bytes;  // a number's highest first
};

// Of the text that stores send: base64. Empty where it is none of that kind.
std::optional<ContentChecksum> parse_checksum(ChecksumKind kind, std::string_view text);

// Not thread-safe.
class ContentCheck {
 public:
  explicit ContentCheck(ContentChecksum expected);
  ~ContentCheck();
  ContentCheck(ContentCheck&&) noexcept;
  void add(std::span<const std::byte> bytes);
  // Whether all that was added is what was expected, as far as this machine can tell: one that
  // keeps to FIPS 140 may have no MD5.
  bool is_right() const;
  std::string_view name() const;  // "CRC-32C"

 private:
  class Sum;
  class CrcSum;
  class Md5Sum;

  ContentChecksum expected_;
  std::unique_ptr<Sum> sum_;
};

}  // namespace cellfeed::cloud
