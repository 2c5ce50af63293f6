#include "cellfeed/io/codecs.h"

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
using Bytes = std::vector<std::byte>;
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

Bytes golden_values() {
  std::vector<std::int32_t> values(80);
  for (int i = 0; i < 80; ++i) values[static_cast<std::size_t>(i)] = i / 3 * 7 - 50;
  std::fill(values.begin() + 40, values.begin() + 60, 5);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// Compressible, with some noise.
Bytes sample(std::size_t size) {
  Bytes bytes = testing::random_bytes(size, 3);
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 50 < 40) bytes[i] = static_cast<std::byte>(i / 300);
  }
  return bytes;
}

Bytes compress_zlib(const Bytes& data, bool gzip) {
  libdeflate_compressor* state = libdeflate_alloc_compressor(6);
  Bytes out(data.size() + 1000);
  const auto compress = gzip ? libdeflate_gzip_compress : libdeflate_zlib_compress;
  out.resize(compress(state, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(state);
  return out;
}
Bytes compress_deflate(const Bytes& data) { return compress_zlib(data, false); }
Bytes compress_gzip(const Bytes& data) { return compress_zlib(data, true); }

Bytes compress_zstd(const Bytes& data) {
  Bytes out(ZSTD_compressBound(data.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), data.data(), data.size(), 3));
  return out;
}

Bytes compress_lz4(const Bytes& data) {
  Bytes out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(data.size()))));
  const int size = LZ4_compress_default(
      reinterpret_cast<const char*>(data.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(data.size()), static_cast<int>(out.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

void append_big_endian(Bytes& out, std::uint64_t value, int n_bytes) {
  for (int i = n_bytes - 1; i >= 0; --i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

Bytes compress_lz4_hdf5(const Bytes& data) {
  constexpr std::size_t kBlock = 1000;
  Bytes out;
  append_big_endian(out, data.size(), 8);
  append_big_endian(out, kBlock, 4);
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    const Bytes block(
        data.begin() + static_cast<std::ptrdiff_t>(at),
        data.begin() + static_cast<std::ptrdiff_t>(std::min(at + kBlock, data.size())));
    const Bytes packed = compress_lz4(block);
    const Bytes& stored = packed.size() < block.size() ? packed : block;
    append_big_endian(out, stored.size(), 4);
    out.insert(out.end(), stored.begin(), stored.end());
  }
  return out;
}

// Literals only: enough to feed the decoder any data.
Bytes wrap_lzf(const Bytes& data) {
  Bytes out;
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
  Bytes (*encode)(const Bytes&);
};

class EveryCodec : public ::testing::TestWithParam<CodecCase> {
 protected:
  // True when the data came back, false on a kCorruptData error; anything else fails the test.
  static bool decodes(const Bytes& encoded, std::size_t size) {
    // Exactly as large as told, so that a sanitizer sees any step outside.
    Bytes in(encoded);
    in.shrink_to_fit();
    Bytes out(size);
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
    const Bytes data = sample(size);
    Bytes out(size);
    GetParam().decode(GetParam().encode(data), out, {});
    EXPECT_EQ(out, data) << size;
  }
}

TEST_P(EveryCodec, RefusesAnotherSizeThanPromised) {
  const Bytes data = sample(5000);
  const Bytes encoded = GetParam().encode(data);
  EXPECT_TRUE(decodes(encoded, 5000));
  EXPECT_FALSE(decodes(encoded, 4999));
  EXPECT_FALSE(decodes(encoded, 5001));
  EXPECT_FALSE(decodes(encoded, 0));
}

TEST_P(EveryCodec, RefusesEveryTruncation) {
  const Bytes encoded = GetParam().encode(sample(400));
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    const Bytes cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decodes(cut, 400)) << size;
  }
}

TEST_P(EveryCodec, SurvivesFlippedBytesAndNoise) {
  const Bytes encoded = GetParam().encode(sample(3000));
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = encoded;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    decodes(damaged, 3000);
  }
  for (std::uint32_t round = 0; round < 500; ++round) {
    decodes(testing::random_bytes(random() % 200, round), random() % 500);
  }
}

INSTANTIATE_TEST_SUITE_P(Io, EveryCodec,
                         ::testing::Values(CodecCase{"zlib", inflate_zlib, compress_deflate},
                                           CodecCase{"gzip", inflate_gzip, compress_gzip},
                                           CodecCase{"lzf", decode_lzf, wrap_lzf},
                                           CodecCase{"zstd", decode_zstd, compress_zstd},
                                           CodecCase{"lz4_block", decode_lz4_block, compress_lz4},
                                           CodecCase{"lz4_hdf5", decode_lz4_hdf5,
                                                     compress_lz4_hdf5}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Codecs, TellHowMuchLzfHolds) {
  EXPECT_EQ(lzf_decoded_bytes({}), 0u);
  const auto chunk = std::as_bytes(std::span(kLzfChunk));
  Bytes out(lzf_decoded_bytes(chunk));
  EXPECT_NO_THROW(decode_lzf(chunk, out));
  for (const std::size_t size : {std::size_t{1}, std::size_t{31}, std::size_t{1000}}) {
    const Bytes data(size, std::byte{7});
    EXPECT_EQ(lzf_decoded_bytes(wrap_lzf(data)), size);
  }
  // Three literals promised, two there; a match without its distance; a long one without its
  // length.
  for (const std::vector<int>& cut : {std::vector<int>{2, 9, 9}, {0, 9, 32}, {0, 9, 224, 1}}) {
    Bytes bytes;
    for (const int byte : cut) bytes.push_back(static_cast<std::byte>(byte));
    EXPECT_EQ(lzf_decoded_bytes(bytes), 0u);
  }
}

TEST(Codecs, ReadAChunkThatH5pyCompressedWithLzf) {
  Bytes out(320);
  decode_lzf(std::as_bytes(std::span(kLzfChunk)), out);
  EXPECT_EQ(out, golden_values());
}

TEST(Codecs, ReadAChunkThatH5pyShuffledAndCompressed) {
  Bytes shuffled(320);
  Bytes out(320);
  inflate_zlib(std::as_bytes(std::span(kGzipShuffleChunk)), shuffled);
  unshuffle(shuffled, out, 4);
  EXPECT_EQ(out, golden_values());
}

TEST(Codecs, GzipOfSeveralMembers) {
  // gzip.compress(b"cellfeed " * 5) of Python, twice.
  const Bytes member = from_hex("1f8b08000000000002034b4ecdc9494b4d4d514826820100fa5106c72d000000");
  Bytes both = member;
  both.insert(both.end(), member.begin(), member.end());
  Bytes out(90);
  inflate_gzip(both, out);
  EXPECT_EQ(std::memcmp(out.data() + 81, "cellfeed ", 9), 0);
}

TEST(Unshuffle, UndoesTheShuffleOfEveryWidth) {
  for (const std::size_t width : {1u, 2u, 3u, 4u, 7u, 8u, 16u}) {
    for (const std::size_t size : {0u, 1u, 7u, 8u, 100u, 4099u}) {
      const Bytes data = testing::random_bytes(size, 2);
      const std::size_t count = size / width;
      Bytes shuffled = data;
      for (std::size_t i = 0; i < count * width; ++i) {
        shuffled[i % width * count + i / width] = data[i];
      }
      Bytes out(size);
      unshuffle(shuffled, out, width);
      EXPECT_EQ(out, data) << width << " " << size;
    }
  }
}

TEST(Unshuffle, RefusesMismatchedSizes) {
  Bytes in(4);
  Bytes out(5);
  EXPECT_THROW(unshuffle(in, out, 2), Error);
  EXPECT_THROW(unshuffle(in, in, 0), Error);
}

// Checksums as HDF5 wrote them, for an odd length and for one that needs many folds.
TEST(Fletcher32, AgreesWithHdf5) {
  const Bytes odd = from_hex("00254a6f94b9de4ebd55e7");
  EXPECT_EQ(check_fletcher32(odd).size(), 7u);
  std::vector<std::uint32_t> numbers(5000);
  for (std::uint32_t i = 0; i < 5000; ++i) numbers[i] = i * 2654435761u;
  EXPECT_EQ(fletcher32(std::as_bytes(std::span(numbers))), 0x8a1d4a97u);
}

TEST(Fletcher32, FindsAnyFlippedBitAndShortInput) {
  const Bytes odd = from_hex("00254a6f94b9de4ebd55e7");
  for (std::size_t bit = 0; bit < odd.size() * 8; ++bit) {
    Bytes damaged = odd;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_THROW((void)check_fletcher32(damaged), Error) << bit;
  }
  EXPECT_THROW((void)check_fletcher32(std::span(odd).first(3)), Error);
}

}  // namespace
}  // namespace cellfeed::io
