// Crc: a cyclic redundancy check of bytes that come in parts. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::io {

enum class CrcKind {
  kCrc32,      // of gzip and zip files
  kCrc32c,     // Castagnoli
  kCrc64Nvme,  // of the NVM Express specification, and of Amazon's store
};

class Crc {
 public:
  explicit Crc(CrcKind kind) : kind_(kind) {}
  void add(std::span<const std::byte> bytes);
  // Of all that was added; 32 bits but for kCrc64Nvme.
  std::uint64_t value() const { return value_; }

 private:
  CrcKind kind_;
  std::uint64_t value_ = 0;
};

// The same of bytes at once.
inline std::uint32_t crc32(std::span<const std::byte> bytes) {
  Crc crc(CrcKind::kCrc32);
  crc.add(bytes);
  return static_cast<std::uint32_t>(crc.value());
}
inline std::uint32_t crc32c(std::span<const std::byte> bytes) {
  Crc crc(CrcKind::kCrc32c);
  crc.add(bytes);
  return static_cast<std::uint32_t>(crc.value());
}

}  // namespace cellfeed::io
