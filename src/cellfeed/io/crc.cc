#include "cellfeed/io/crc.h"

#include <libdeflate.h>

#include <array>
#include <bit>
#include <cstring>

namespace cellfeed::io {
namespace {

// What k zero bytes behind a byte make of it, for k below 8: eight bytes are looked up at once.
using Tables = std::array<std::array<std::uint64_t, 256>, 8>;

// polynomial: its bits in the order of those of the data, the lowest first.
constexpr Tables make_tables(std::uint64_t polynomial) {
  Tables tables{};
  for (std::uint64_t i = 0; i < 256; ++i) {
    std::uint64_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? polynomial : 0);
    tables[0][i] = value;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t i = 0; i < 256; ++i)
      tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
  return tables;
}

std::uint64_t add_by_tables(const Tables& tables, std::uint64_t value,
                            std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes.data(), 8);
    value ^= eight;
    std::uint64_t next = 0;
    for (std::size_t k = 0; k < 8; ++k) next ^= tables[7 - k][value >> (8 * k) & 0xff];
    value = next;
  }
  for (const std::byte byte : bytes)
    value = value >> 8 ^ tables[0][(value ^ std::to_integer<std::uint64_t>(byte)) & 0xff];
  return value;
}

}  // namespace

void Crc::add(std::span<const std::byte> bytes) {
  static constexpr Tables kOf32c = make_tables(0x82f63b78);
  static constexpr Tables kOf64Nvme = make_tables(0x9a6c9329ac4bc9b5);
  switch (kind_) {
    case CrcKind::kCrc32:
      value_ = libdeflate_crc32(static_cast<std::uint32_t>(value_), bytes.data(), bytes.size());
      return;
    case CrcKind::kCrc32c:
      value_ ^= 0xffffffff;
      value_ = add_by_tables(kOf32c, value_, bytes) ^ 0xffffffff;
      return;
    case CrcKind::kCrc64Nvme:
      value_ = ~add_by_tables(kOf64Nvme, ~value_, bytes);
      return;
  }
}

}  // namespace cellfeed::io
