#include "cellfeed/io/crc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cellfeed::io {
namespace {

std::uint64_t of(CrcKind kind, std::string_view text, std::size_t part = 1000) {
  Crc crc(kind);
  auto bytes = std::as_bytes(std::span(text));
  while (bytes.size() > part) {
    crc.add(bytes.first(part));
    bytes = bytes.subspan(part);
  }
  crc.add(bytes);
  return crc.value();
}

// The check values of the catalogue of CRC algorithms.
TEST(Crc, IsThatOfTheCatalogueInPartsOfAnySize) {
  for (std::size_t part = 1; part < 10; ++part) {
    EXPECT_EQ(of(CrcKind::kCrc32, "123456789", part), 0xcbf43926u);
    EXPECT_EQ(of(CrcKind::kCrc32c, "123456789", part), 0xe3069283u);
    EXPECT_EQ(of(CrcKind::kCrc64Nvme, "123456789", part), 0xae8b14860a799888u);
  }
  for (const CrcKind kind : {CrcKind::kCrc32, CrcKind::kCrc32c, CrcKind::kCrc64Nvme})
    EXPECT_EQ(of(kind, ""), 0u);
}

// RFC 3720, B.4.
TEST(Crc, IsThatOfTheExamplesOfItsStandard) {
  const auto crc_of = [](const std::vector<std::byte>& bytes) { return crc32c(bytes); };
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc_of(bytes), 0x8a9136aau);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  EXPECT_EQ(crc_of(bytes), 0x62a8ab43u);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc_of(bytes), 0x46dd794eu);
}

TEST(Crc, OfPartsIsThatOfTheWhole) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += static_cast<char>(i * 37 % 251);
  for (const CrcKind kind : {CrcKind::kCrc32, CrcKind::kCrc32c, CrcKind::kCrc64Nvme})
    for (const std::size_t part : {1u, 3u, 8u, 1001u})
      EXPECT_EQ(of(kind, text, part), of(kind, text, text.size()));
}

}  // namespace
}  // namespace cellfeed::io
