#include "cellfeed/io/codecs.h"

#include <blosc.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/byte_source_conformance.h"

namespace cellfeed::io {
namespace {

using ::testing::HasSubstr;
using ByteVector = std::vector<std::byte>;
using Decoder = void (*)(std::span<const std::byte>, std::span<std::byte>, const ChunkOrigin&);

// Written by h5py 3 from the 80 numbers of golden_values(): one chunk with LZF, one with shuffle
// and gzip.
constexpr unsigned char kLzfChunk[] = {
    0x04, 0xce, 0xff, 0xff, 0xff, 0xce, 0xa0, 0x03, 0x00, 0xd5, 0x20, 0x07, 0xc0, 0x03, 0x00,
    0xdc, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0xe3, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0xea, 0x20, 0x0b,
    0xc0, 0x03, 0x00, 0xf1, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0xf8, 0x20, 0x0b, 0xc0, 0x03, 0xe0,
    0x03, 0x00, 0x03, 0x06, 0x00, 0x00, 0x00, 0xc0, 0x03, 0x00, 0x0d, 0x20, 0x0b, 0xc0, 0x03,
    0x00, 0x14, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0x1b, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0x22, 0x20,
    0x0b, 0xc0, 0x03, 0x00, 0x29, 0x20, 0x0b, 0x00, 0x05, 0xe0, 0x46, 0x03, 0x00, 0x5a, 0x20,
    0x4f, 0xc0, 0x03, 0x00, 0x61, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0x68, 0x20, 0x0b, 0xc0, 0x03,
    0x00, 0x6f, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0x76, 0x20, 0x0b, 0xc0, 0x03, 0x00, 0x7d, 0x20,
    0x0b, 0xc0, 0x03, 0x00, 0x84, 0x20, 0x0b, 0x03, 0x84, 0x00, 0x00, 0x00};
constexpr unsigned char kGzipShuffleChunk[] = {
    0x78, 0x5e, 0x3b, 0x77, 0xee, 0xdc, 0xd5, 0xab, 0x57, 0xef, 0xdc, 0xb9, 0xf3, 0xf8, 0xf1, 0xe3,
    0x57, 0xaf, 0x5e, 0x7d, 0xfc, 0xf8, 0xf1, 0xc7, 0x8f, 0x1f, 0xff, 0xff, 0xff, 0x67, 0x63, 0x63,
    0xe3, 0xe5, 0xe5, 0x15, 0x11, 0x11, 0x91, 0x96, 0x96, 0x56, 0x52, 0x52, 0xd2, 0x64, 0xc5, 0x02,
    0xa2, 0xa2, 0xa2, 0x12, 0x13, 0x13, 0x33, 0x32, 0x32, 0xf2, 0xf3, 0xf3, 0xcb, 0xca, 0xca, 0x6a,
    0x6b, 0x6b, 0x5b, 0x5a, 0xfe, 0xe3, 0x00, 0x0c, 0x64, 0x02, 0x74, 0x73, 0x60, 0x00, 0x5d, 0x1d,
    0xb1, 0x00, 0xdd, 0x1c, 0x18, 0x40, 0x57, 0x47, 0x2c, 0x00, 0x00, 0xe8, 0xc2, 0x67, 0xa5};

ByteVector golden_values() {
  std::vector<std::int32_t> values(80);
  for (int i = 0; i < 80; ++i) values[static_cast<std::size_t>(i)] = i / 3 * 7 - 50;
  std::fill(values.begin() + 40, values.begin() + 60, 5);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

ByteVector from_hex(std::string_view hex) {
  ByteVector bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// Compressible, with some noise.
ByteVector sample(std::size_t size) {
  ByteVector bytes = testing::random_bytes(size, 3);
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 50 < 40) bytes[i] = static_cast<std::byte>(i / 300);
  }
  return bytes;
}

ByteVector compress_zlib(const ByteVector& data, bool gzip) {
  libdeflate_compressor* state = libdeflate_alloc_compressor(6);
  ByteVector out(data.size() + 1000);
  const auto compress = gzip ? libdeflate_gzip_compress : libdeflate_zlib_compress;
  out.resize(compress(state, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(state);
  return out;
}
ByteVector compress_deflate(const ByteVector& data) { return compress_zlib(data, false); }
ByteVector compress_gzip(const ByteVector& data) { return compress_zlib(data, true); }

ByteVector compress_zstd(const ByteVector& data) {
  ByteVector out(ZSTD_compressBound(data.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), data.data(), data.size(), 3));
  return out;
}

ByteVector compress_lz4(const ByteVector& data) {
  ByteVector out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(data.size()))));
  const int size = LZ4_compress_default(
      reinterpret_cast<const char*>(data.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(data.size()), static_cast<int>(out.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

void append_big_endian(ByteVector& out, std::uint64_t value, int n_bytes) {
  for (int i = n_bytes - 1; i >= 0; --i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

ByteVector compress_lz4_hdf5(const ByteVector& data) {
  constexpr std::size_t kBlock = 1000;
  ByteVector out;
  append_big_endian(out, data.size(), 8);
  append_big_endian(out, kBlock, 4);
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    const ByteVector block(
        data.begin() + static_cast<std::ptrdiff_t>(at),
        data.begin() + static_cast<std::ptrdiff_t>(std::min(at + kBlock, data.size())));
    const ByteVector packed = compress_lz4(block);
    const ByteVector& stored = packed.size() < block.size() ? packed : block;
    append_big_endian(out, stored.size(), 4);
    out.insert(out.end(), stored.begin(), stored.end());
  }
  return out;
}

ByteVector compress_blosc(const ByteVector& data) {
  constexpr std::size_t kWidth = 4, kAnyBlock = 0;
  ByteVector out(data.size() + BLOSC_MAX_OVERHEAD);
  out.resize(static_cast<std::size_t>(blosc_compress_ctx(5, BLOSC_BITSHUFFLE, kWidth, data.size(),
                                                         data.data(), out.data(), out.size(),
                                                         "zstd", kAnyBlock, 1)));
  return out;
}

// Bit b of element e to bit row b, for all elements but those past the last multiple of eight.
ByteVector shuffle_bits(const ByteVector& data, std::size_t width) {
  const std::size_t count = data.size() / width / 8 * 8;
  ByteVector out = data;
  std::fill_n(out.begin(), count * width, std::byte{0});
  for (std::size_t e = 0; e < count; ++e)
    for (std::size_t b = 0; b < width * 8; ++b) {
      const std::size_t to = b * count + e;
      out[to / 8] |= (data[e * width + b / 8] >> (b % 8) & std::byte{1}) << (to % 8);
    }
  return out;
}

// As bitshuffle frames blocks of 1024 elements of one byte.
ByteVector frame_bitshuffle(const ByteVector& data, ByteVector (*compress)(const ByteVector&)) {
  constexpr std::size_t kBlock = 1024;
  ByteVector out;
  append_big_endian(out, data.size(), 8);
  append_big_endian(out, kBlock, 4);
  std::size_t at = 0;
  while (data.size() - at >= 8) {
    const std::size_t size = std::min(kBlock, (data.size() - at) / 8 * 8);
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(at);
    const ByteVector packed =
        compress(shuffle_bits(ByteVector(begin, begin + static_cast<std::ptrdiff_t>(size)), 1));
    append_big_endian(out, packed.size(), 4);
    out.insert(out.end(), packed.begin(), packed.end());
    at += size;
  }
  out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(at), data.end());
  return out;
}
ByteVector bitshuffle_lz4(const ByteVector& data) { return frame_bitshuffle(data, compress_lz4); }
ByteVector bitshuffle_zstd(const ByteVector& data) { return frame_bitshuffle(data, compress_zstd); }
void decode_bitshuffle_lz4(std::span<const std::byte> in, std::span<std::byte> out,
                           const ChunkOrigin& origin) {
  decode_bitshuffle(in, out, {.codec = BitshuffleCodec::kLz4}, origin);
}
void decode_bitshuffle_zstd(std::span<const std::byte> in, std::span<std::byte> out,
                            const ChunkOrigin& origin) {
  decode_bitshuffle(in, out, {.codec = BitshuffleCodec::kZstd}, origin);
}

// Literals only: enough to feed the decoder any data.
ByteVector wrap_lzf(const ByteVector& data) {
  ByteVector out;
  for (std::size_t at = 0; at < data.size(); at += 32) {
    const std::size_t length = std::min<std::size_t>(32, data.size() - at);
    out.push_back(static_cast<std::byte>(length - 1));
    out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(at),
               data.begin() + static_cast<std::ptrdiff_t>(at + length));
  }
  return out;
}

struct CodecCase {
  const char* name;
  Decoder decode;
  ByteVector (*encode)(const ByteVector&);
};

class EveryCodec : public ::testing::TestWithParam<CodecCase> {
 protected:
  // True when the data came back, false on a kCorruptData error; anything else fails the test.
  static bool decodes(const ByteVector& encoded, std::size_t size) {
    // Exactly as large as told, so that a sanitizer sees any step outside.
    ByteVector in(encoded);
    in.shrink_to_fit();
    ByteVector out(size);
    try {
      GetParam().decode(in, out, {.path = "file.h5", .offset = 42});
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorruptData) << error.what();
      EXPECT_EQ(error.path(), "file.h5");
      EXPECT_THAT(error.what(), HasSubstr("42"));
      return false;
    }
  }
};

TEST_P(EveryCodec, GivesBackWhatWasEncoded) {
  for (const std::size_t size : {1u, 5u, 31u, 999u, 1000u, 1001u, 70000u}) {
    const ByteVector data = sample(size);
    ByteVector out(size);
    GetParam().decode(GetParam().encode(data), out, {});
    EXPECT_EQ(out, data) << size;
  }
}

TEST_P(EveryCodec, RefusesAnotherSizeThanPromised) {
  const ByteVector data = sample(5000);
  const ByteVector encoded = GetParam().encode(data);
  EXPECT_TRUE(decodes(encoded, 5000));
  EXPECT_FALSE(decodes(encoded, 4999));
  EXPECT_FALSE(decodes(encoded, 5001));
  EXPECT_FALSE(decodes(encoded, 0));
}

TEST_P(EveryCodec, RefusesEveryTruncation) {
  const ByteVector encoded = GetParam().encode(sample(400));
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    const ByteVector cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decodes(cut, 400)) << size;
  }
}

TEST_P(EveryCodec, SurvivesFlippedBytesAndNoise) {
  const ByteVector encoded = GetParam().encode(sample(3000));
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    ByteVector damaged = encoded;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    decodes(damaged, 3000);
  }
  for (std::uint32_t round = 0; round < 500; ++round) {
    decodes(testing::random_bytes(random() % 200, round), random() % 500);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Io, EveryCodec,
    ::testing::Values(CodecCase{"zlib", inflate_zlib, compress_deflate},
                      CodecCase{"gzip", inflate_gzip, compress_gzip},
                      CodecCase{"lzf", decode_lzf, wrap_lzf},
                      CodecCase{"zstd", decode_zstd, compress_zstd},
                      CodecCase{"lz4_block", decode_lz4_block, compress_lz4},
                      CodecCase{"lz4_hdf5", decode_lz4_hdf5, compress_lz4_hdf5},
                      CodecCase{"blosc", decode_blosc, compress_blosc},
                      CodecCase{"bitshuffle_lz4", decode_bitshuffle_lz4, bitshuffle_lz4},
                      CodecCase{"bitshuffle_zstd", decode_bitshuffle_zstd, bitshuffle_zstd}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Codecs, ReadAChunkThatH5pyCompressedWithLzf) {
  ByteVector out(320);
  decode_lzf(std::as_bytes(std::span(kLzfChunk)), out);
  EXPECT_EQ(out, golden_values());
}

TEST(Codecs, ReadAChunkThatH5pyShuffledAndCompressed) {
  ByteVector shuffled(320);
  ByteVector out(320);
  inflate_zlib(std::as_bytes(std::span(kGzipShuffleChunk)), shuffled);
  unshuffle(shuffled, out, 4);
  EXPECT_EQ(out, golden_values());
}

// The first 75 golden values; 72 are in blocks, 3 are left over.
TEST(Codecs, ReadChunksOfTheBitshuffleAndBloscPlugins) {
  const ByteVector lz4 = from_hex(
      "000000000000012c000000600000001dff03388ee3077ee0ff01e0c771fcf881ff00feff01003650ffffffff"
      "ff0000001dff03388eff077e00ff01ff388e00c00f0000f00001003650000000000000000021ff07ff8fe300"
      "70e0ff0fe00070fc0070000080ff00f0ff00010032500000000000760000007600000076000000");
  const ByteVector zstd = from_hex(
      "000000000000012c000020000000004b28b52ffd6020000d020002840d17d0a5316470b39ac0e283c6870299"
      "0b0b30015496313b05ca54ff03657e2852432c180da93a0d28ce3cf9c88734954b650dafce522702005540b1"
      "932850760000007600000076000000");
  const ByteVector blosc = from_hex(
      "020134042c0100002c010000e500000014000000cd000000f647ceffffffceffffffceffffffd5ffffffd5ff"
      "ffffd5ffffffdcffffffdcffffffdcffffffe3ffffffe3ffffffe3ffffffeaffffffeaffffffeafffffff1ff"
      "fffff1fffffff1fffffff8fffffff8fffffff8ffffffffff0500ff420600000006000000060000000d000000"
      "0d0000000d0000001400000014000000140000001b0000001b0000001b000000220000002200000022000000"
      "29000000050000000500000005000000050000000514002c175a04001761040017680400176f0400c0760000"
      "007600000076000000");
  ByteVector values = golden_values();
  values.resize(300);
  ByteVector out(300);
  decode_bitshuffle(lz4, out, {.element_bytes = 4, .codec = BitshuffleCodec::kLz4});
  EXPECT_EQ(out, values);
  std::fill(out.begin(), out.end(), std::byte{0});
  decode_bitshuffle(zstd, out, {.element_bytes = 4, .codec = BitshuffleCodec::kZstd});
  EXPECT_EQ(out, values);
  std::fill(out.begin(), out.end(), std::byte{0});
  decode_blosc(blosc, out);
  EXPECT_EQ(out, values);
}

TEST(Bitshuffle, UndoesTheShuffleOfEveryWidthInOneBlock) {
  for (const std::size_t width : {1u, 2u, 3u, 4u, 8u, 16u}) {
    for (const std::size_t count : {0u, 1u, 7u, 8u, 25u, 128u}) {
      const ByteVector data = testing::random_bytes(width * count, 2);
      ByteVector out(data.size());
      decode_bitshuffle(shuffle_bits(data, width), out, {.element_bytes = width});
      EXPECT_EQ(out, data) << width << " " << count;
    }
  }
}

TEST(Bitshuffle, RefusesImpossibleBlocksAndWidths) {
  ByteVector in(64);
  ByteVector out(64);
  EXPECT_THROW(decode_bitshuffle(in, out, {.element_bytes = 0}), Error);
  EXPECT_THROW(decode_bitshuffle(in, out, {.element_bytes = 5}), Error);
  EXPECT_THROW(decode_bitshuffle(in, out, {.element_bytes = 1, .block_elements = 12}), Error);
  EXPECT_THROW(decode_bitshuffle(std::span(in).first(63), out, {.element_bytes = 1}), Error);
}

TEST(Codecs, GzipOfSeveralMembers) {
  // gzip.compress(b"cellfeed " * 5) of Python, twice.
  const ByteVector member =
      from_hex("1f8b08000000000002034b4ecdc9494b4d4d514826820100fa5106c72d000000");
  ByteVector both = member;
  both.insert(both.end(), member.begin(), member.end());
  ByteVector out(90);
  inflate_gzip(both, out);
  EXPECT_EQ(std::memcmp(out.data() + 81, "cellfeed ", 9), 0);
}

TEST(Unshuffle, UndoesTheShuffleOfEveryWidth) {
  for (const std::size_t width : {1u, 2u, 3u, 4u, 7u, 8u, 16u}) {
    for (const std::size_t size : {0u, 1u, 7u, 8u, 100u, 4099u}) {
      const ByteVector data = testing::random_bytes(size, 2);
      const std::size_t count = size / width;
      ByteVector shuffled = data;
      for (std::size_t i = 0; i < count * width; ++i) {
        shuffled[i % width * count + i / width] = data[i];
      }
      ByteVector out(size);
      unshuffle(shuffled, out, width);
      EXPECT_EQ(out, data) << width << " " << size;
    }
  }
}

// Planes of no elements are not gone through one by one: it would take hours.
TEST(Unshuffle, WiderElementsThanThereAreBytesStayAsTheyAre) {
  const ByteVector in(100, std::byte{7});
  for (const std::size_t width :
       {std::size_t{100}, std::size_t{101}, std::size_t{0xffffffff}, ~std::size_t{0}}) {
    ByteVector out(in.size());
    unshuffle(in, out, width);
    EXPECT_EQ(out, in);
  }
}

TEST(Unshuffle, RefusesMismatchedSizes) {
  ByteVector in(4);
  ByteVector out(5);
  EXPECT_THROW(unshuffle(in, out, 2), Error);
  EXPECT_THROW(unshuffle(in, in, 0), Error);
}

// Checksums as HDF5 wrote them, for an odd length and for one that needs many folds.
TEST(Fletcher32, AgreesWithHdf5) {
  const ByteVector odd = from_hex("00254a6f94b9de4ebd55e7");
  EXPECT_EQ(check_fletcher32(odd).size(), 7u);
  std::vector<std::uint32_t> numbers(5000);
  for (std::uint32_t i = 0; i < 5000; ++i) numbers[i] = i * 2654435761u;
  EXPECT_EQ(fletcher32(std::as_bytes(std::span(numbers))), 0x8a1d4a97u);
}

TEST(Fletcher32, FindsAnyFlippedBitAndShortInput) {
  const ByteVector odd = from_hex("00254a6f94b9de4ebd55e7");
  for (std::size_t bit = 0; bit < odd.size() * 8; ++bit) {
    ByteVector damaged = odd;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_THROW((void)check_fletcher32(damaged), Error) << bit;
  }
  EXPECT_THROW((void)check_fletcher32(std::span(odd).first(3)), Error);
}

}  // namespace
}  // namespace cellfeed::io
