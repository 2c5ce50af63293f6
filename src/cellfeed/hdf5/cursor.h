// Cursor: reads the little-endian fields of one HDF5 structure in turn, every read checked.
// Not thread-safe. Lifetime: the FileBytes outlives it, and so does the text that names the
// structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

inline constexpr std::uint64_t kChecksumBytes = 4;

// The bytes as one number, of which the first is the lowest. REQUIRES: at most 8 of them.
inline std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

class Cursor {
 public:
  // structure: the specification's term, such as "version 1 B-tree node". Throws kCorruptData where
  // the bytes are not all inside the file.
  Cursor(const FileBytes& file, Address address, std::uint64_t n_bytes, std::string_view structure);
  // Over bytes that were read from this address before.
  Cursor(const FileBytes& file, Bytes bytes, Address address, std::string_view structure)
      : file_(&file), bytes_(std::move(bytes)), address_(address), structure_(structure) {}

  const FileBytes& file() const { return *file_; }
  // Where the structure begins.
  Address address() const { return address_; }
  std::size_t position() const { return position_; }
  std::size_t size() const { return bytes_.size(); }
  std::size_t remaining() const { return bytes_.size() - position_; }

  std::uint8_t u8() { return static_cast<std::uint8_t>(uint(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(uint(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(uint(4)); }
  std::uint64_t u64() { return uint(8); }
  // REQUIRES: 0 <= n_bytes <= 8.
  std::uint64_t uint(int n_bytes);
  // An address of the file's offset size; kUndefinedAddress where all its bits are set.
  Address read_address();
  // A length of the file's length size; all bits set where all of the field's are.
  std::uint64_t read_length();
  // The next n bytes, which live as long as the cursor's.
  Bytes bytes(std::uint64_t n);
  // A cursor over the next n bytes, named as a structure of its own.
  Cursor part(std::uint64_t n, std::string_view structure);
  // Text up to a zero byte, which is passed.
  std::string text();
  void skip(std::uint64_t n);
  // Moves to a place of the structure.
  void seek(std::uint64_t position);
  void expect_signature(std::string_view signature);
  // Reads the checksum that follows what was read up to here, and compares.
  void expect_checksum();
  // Compares the checksum that stands at n with that of the first n bytes; moves nowhere.
  void verify_checksum(std::uint64_t n) const;

  // Compares the checksum that stands at n with that of all bytes, its own counted as zero.
  void verify_checksum_inside(std::uint64_t n) const;

  // Throws kCorruptData naming the structure and its offset in the file.
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw_damage(fmt::format(text, std::forward<Args>(args)...));
  }
  // Throws kUnsupported likewise.
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw_refusal(fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  std::span<const std::byte> take(std::uint64_t n);
  std::uint64_t wide(int n_bytes);
  std::uint32_t stored_checksum(std::uint64_t n) const;
  void compare_checksum(std::uint32_t stored, std::uint32_t computed) const;
  [[noreturn]] void throw_damage(const std::string& what) const;
  [[noreturn]] void throw_refusal(const std::string& what) const;

  const FileBytes* file_;
  Bytes bytes_;
  Address address_;
  std::string_view structure_;
  std::size_t position_ = 0;
};

}  // namespace cellfeed::hdf5
