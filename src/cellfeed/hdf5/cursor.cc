// Checked reading of little-endian fields.
#include "cellfeed/hdf5/cursor.h"

#include <algorithm>
#include <cstring>

#include "cellfeed/hdf5/checksum.h"

namespace cellfeed::hdf5 {

Cursor::Cursor(const FileBytes& file, Address address, std::uint64_t n_bytes,
               std::string_view structure)
    : file_(&file), address_(address), structure_(structure) {
  if (!file.holds(address, n_bytes)) {
    if (address == kUndefinedAddress) fail("its address is undefined");
    fail("it does not lie inside the file: {} bytes wanted, size of the file {}", n_bytes,
         file.size());
  }
  bytes_ = file.read(address, n_bytes);
}

std::span<const std::byte> Cursor::take(std::uint64_t n) {
  if (n > remaining()) fail("{} bytes wanted at its byte {} of {}", n, position_, size());
  const auto taken = bytes_.view().subspan(position_, static_cast<std::size_t>(n));
  position_ += static_cast<std::size_t>(n);
  return taken;
}

std::uint64_t Cursor::uint(int n_bytes) {
  return little_endian(take(static_cast<std::uint64_t>(n_bytes)));
}

std::uint64_t Cursor::wide(int n_bytes) {
  const std::uint64_t value = uint(n_bytes);
  if (n_bytes >= 8) return value;
  const std::uint64_t all = (std::uint64_t{1} << (8 * n_bytes)) - 1;
  return value == all ? ~std::uint64_t{0} : value;
}

Address Cursor::read_address() { return wide(file_->offset_size()); }

std::uint64_t Cursor::read_length() { return wide(file_->length_size()); }

Bytes Cursor::bytes(std::uint64_t n) {
  const std::size_t begin = position_;
  take(n);
  return bytes_.part(begin, static_cast<std::size_t>(n));
}

Cursor Cursor::part(std::uint64_t n, std::string_view structure) {
  const Address begin = address_ + position_;
  return Cursor(*file_, bytes(n), begin, structure);
}

std::string Cursor::text() {
  const auto rest = bytes_.view().subspan(position_);
  const auto end = std::find(rest.begin(), rest.end(), std::byte{0});
  if (end == rest.end()) fail("a text without its final zero byte, at its byte {}", position_);
  const auto length = static_cast<std::size_t>(end - rest.begin());
  position_ += length + 1;
  return {reinterpret_cast<const char*>(rest.data()), length};
}

void Cursor::skip(std::uint64_t n) { take(n); }

void Cursor::seek(std::uint64_t position) {
  position_ = 0;
  take(position);
}

void Cursor::expect_signature(std::string_view signature) {
  const auto found = take(signature.size());
  if (std::memcmp(found.data(), signature.data(), signature.size()) != 0)
    fail("its signature is not '{}'", signature);
}

void Cursor::expect_checksum() {
  verify_checksum(position_);
  skip(kChecksumBytes);
}

void Cursor::verify_checksum(std::uint64_t n) const {
  const std::uint32_t stored = stored_checksum(n);
  compare_checksum(stored, metadata_checksum(bytes_.view().first(static_cast<std::size_t>(n))));
}

void Cursor::verify_checksum_inside(std::uint64_t n) const {
  const std::uint32_t stored = stored_checksum(n);
  std::vector<std::byte> copy(bytes_.view().begin(), bytes_.view().end());
  std::fill_n(copy.begin() + static_cast<std::ptrdiff_t>(n), kChecksumBytes, std::byte{0});
  compare_checksum(stored, metadata_checksum(copy));
}

std::uint32_t Cursor::stored_checksum(std::uint64_t n) const {
  if (n > size() || kChecksumBytes > size() - n)
    fail("its checksum wanted at its byte {} of {}", n, size());
  return static_cast<std::uint32_t>(
      little_endian(bytes_.view().subspan(static_cast<std::size_t>(n), kChecksumBytes)));
}

void Cursor::compare_checksum(std::uint32_t stored, std::uint32_t computed) const {
  if (stored != computed)
    fail("its checksum does not match: {:#010x} stored, {:#010x} computed", stored, computed);
}

void Cursor::throw_damage(const std::string& what) const {
  throw_error(ErrorKind::kCorruptData, file_->path(), "damaged HDF5 file: {} at offset {}: {}",
              structure_,
              address_ == kUndefinedAddress ? address_ : address_ + file_->base_address(), what);
}

void Cursor::throw_refusal(const std::string& what) const {
  throw_error(ErrorKind::kUnsupported, file_->path(), "{} at offset {}: {}", structure_,
              address_ + file_->base_address(), what);
}

}  // namespace cellfeed::hdf5
