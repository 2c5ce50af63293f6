#include "cellfeed/io/unsized.h"

#include <blosc.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

using Chars = std::vector<std::byte>;
using AnyDecoder = std::function<Chars(std::span<const std::byte>, std::size_t)>;

constexpr std::size_t kEnough = 1 << 20;

Chars chars_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Chars much_text() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i % 77);
  return chars_of(text);
}

Chars deflated(const Chars& data, decltype(libdeflate_gzip_compress) compress) {
  auto* state = libdeflate_alloc_compressor(6);
  Chars out(data.size() + 1000);
  out.resize(compress(state, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(state);
  return out;
}

Chars zstd_of(const Chars& data, bool says_size) {
  auto* state = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(state, ZSTD_c_contentSizeFlag, says_size ? 1 : 0);
  Chars out(ZSTD_compressBound(data.size()));
  out.resize(ZSTD_compress2(state, out.data(), out.size(), data.data(), data.size()));
  ZSTD_freeCCtx(state);
  return out;
}

Chars blosc_of(const Chars& data) {
  Chars out(data.size() + BLOSC_MAX_OVERHEAD);
  const int n = blosc_compress_ctx(5, BLOSC_SHUFFLE, 1, data.size(), data.data(), out.data(),
                                   out.size(), "lz4", 0, 1);
  out.resize(static_cast<std::size_t>(n));
  return out;
}

Chars lz4_of(const Chars& data) {
  Chars out(4 + static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(data.size()))));
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(data.size() >> (8 * i));
  const int n = LZ4_compress_default(
      reinterpret_cast<const char*>(data.data()), reinterpret_cast<char*>(out.data()) + 4,
      static_cast<int>(data.size()), static_cast<int>(out.size()) - 4);
  out.resize(4 + static_cast<std::size_t>(n));
  return out;
}

struct Case {
  const char* name;
  std::function<Chars(const Chars&)> encode;
  AnyDecoder decode;
};

const Case kCases[] = {
    {"gzip", [](const Chars& data) { return deflated(data, libdeflate_gzip_compress); },
     [](auto in, std::size_t most) { return inflate_any(in, most, true); }},
    {"zlib", [](const Chars& data) { return deflated(data, libdeflate_zlib_compress); },
     [](auto in, std::size_t most) { return inflate_any(in, most, false); }},
    {"zstd", [](const Chars& data) { return zstd_of(data, true); },
     [](auto in, std::size_t most) { return decode_any_zstd(in, most); }},
    {"zstd of unknown size", [](const Chars& data) { return zstd_of(data, false); },
     [](auto in, std::size_t most) { return decode_any_zstd(in, most); }},
    {"blosc", blosc_of, [](auto in, std::size_t most) { return decode_any_blosc(in, most); }},
    {"lz4", lz4_of, [](auto in, std::size_t most) { return decode_any_lz4(in, most); }},
};

TEST(Unsized, EachGivesBackWhatWasEncoded) {
  for (const Case& each : kCases)
    for (const Chars& data : {chars_of("a"), much_text()})
      EXPECT_EQ(each.decode(each.encode(data), kEnough), data) << each.name;
}

TEST(Unsized, MoreThanIsPossibleAndLessThanThereIsAreErrors) {
  const Chars data = much_text();
  for (const Case& each : kCases) {
    const Chars encoded = each.encode(data);
    EXPECT_THROW(each.decode(encoded, data.size() - 1), Error) << each.name;
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{3}, encoded.size() / 2, encoded.size() - 1})
      EXPECT_THROW(each.decode(std::span(encoded).first(n), kEnough), Error)
          << each.name << " " << n;
  }
}

TEST(Unsized, DeflateOfZipFiles) {
  const Chars data = much_text();
  const Chars encoded = deflated(data, libdeflate_deflate_compress);
  Chars out(data.size());
  inflate_raw(encoded, out);
  EXPECT_EQ(out, data);
  out.pop_back();
  EXPECT_THROW(inflate_raw(encoded, out), Error);
}

}  // namespace
}  // namespace cellfeed::io
