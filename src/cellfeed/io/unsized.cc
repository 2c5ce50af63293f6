#include "cellfeed/io/unsized.h"

#include <blosc.h>
#include <libdeflate.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

struct FreeInflater {
  void operator()(libdeflate_decompressor* state) const { libdeflate_free_decompressor(state); }
};

libdeflate_decompressor* inflater() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeInflater> state(
      libdeflate_alloc_decompressor());
  if (!state) throw std::bad_alloc();
  return state.get();
}

struct FreeStream {
  void operator()(ZSTD_DStream* state) const { ZSTD_freeDStream(state); }
};

void require_room(std::size_t n_bytes, std::size_t max_bytes, const ChunkOrigin& origin) {
  if (n_bytes > max_bytes)
    throw_damaged_chunk(origin, fmt::format("it holds {} bytes, more than the {} that are possible",
                                            n_bytes, max_bytes));
}

std::size_t lz4_length(std::span<const std::byte> in, const ChunkOrigin& origin) {
  if (in.size() < 4)
    throw_damaged_chunk(origin, fmt::format("lz4 data of {} bytes has no header", in.size()));
  return static_cast<std::size_t>(read_little_endian(in.first(4)));
}

// Whatever the frames say, or do not say, of their length.
std::vector<std::byte> stream_zstd(std::span<const std::byte> in, std::size_t max_bytes,
                                   const ChunkOrigin& origin) {
  thread_local const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  if (!stream) throw std::bad_alloc();
  ZSTD_initDStream(stream.get());
  std::vector<std::byte> out;
  std::vector<std::byte> piece(ZSTD_DStreamOutSize());
  ZSTD_inBuffer from{in.data(), in.size(), 0};
  std::size_t left = 1;
  bool is_full = true;
  while (from.pos < from.size || is_full) {
    ZSTD_outBuffer to{piece.data(), piece.size(), 0};
    left = ZSTD_decompressStream(stream.get(), &to, &from);
    if (ZSTD_isError(left) != 0)
      throw_damaged_chunk(
          origin, fmt::format("zstd data of {} bytes: {}", in.size(), ZSTD_getErrorName(left)));
    require_room(out.size() + to.pos, max_bytes, origin);
    out.insert(out.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(to.pos));
    is_full = to.pos == to.size;
  }
  if (left != 0) throw_damaged_chunk(origin, "zstd data ends early");
  return out;
}

}  // namespace

std::vector<std::byte> inflate_any(std::span<const std::byte> in, std::size_t max_bytes,
                                   bool is_gzip, const ChunkOrigin& origin) {
  constexpr std::size_t kLeastBytes = 4096;
  const auto inflate = is_gzip ? libdeflate_gzip_decompress : libdeflate_zlib_decompress;
  std::vector<std::byte> out(std::min(max_bytes, std::max(kLeastBytes, 8 * in.size())));
  while (true) {
    std::size_t n = 0;
    const auto result = inflate(inflater(), in.data(), in.size(), out.data(), out.size(), &n);
    if (result == LIBDEFLATE_SUCCESS) {
      out.resize(n);
      return out;
    }
    if (result != LIBDEFLATE_INSUFFICIENT_SPACE)
      throw_damaged_chunk(origin, fmt::format("{} bytes are no {} data, or its checksum differs",
                                              in.size(), is_gzip ? "gzip" : "zlib"));
    require_room(out.size() + 1, max_bytes, origin);
    out.resize(std::min(max_bytes, out.size() * 4));
  }
}

void inflate_raw(std::span<const std::byte> in, std::span<std::byte> out,
                 const ChunkOrigin& origin) {
  const auto result = libdeflate_deflate_decompress(inflater(), in.data(), in.size(), out.data(),
                                                    out.size(), nullptr);
  if (result != LIBDEFLATE_SUCCESS)
    throw_damaged_chunk(origin, fmt::format("deflate data of {} bytes does not hold {} bytes",
                                            in.size(), out.size()));
}

std::vector<std::byte> decode_any_zstd(std::span<const std::byte> in, std::size_t max_bytes,
                                       const ChunkOrigin& origin) {
  const std::size_t first = ZSTD_findFrameCompressedSize(in.data(), in.size());
  const std::uint64_t n_bytes = ZSTD_getFrameContentSize(in.data(), in.size());
  if (n_bytes == ZSTD_CONTENTSIZE_ERROR)
    throw_damaged_chunk(origin, fmt::format("{} bytes are no zstd data", in.size()));
  if (n_bytes == ZSTD_CONTENTSIZE_UNKNOWN || first != in.size())
    return stream_zstd(in, max_bytes, origin);
  require_room(n_bytes, max_bytes, origin);
  std::vector<std::byte> out(static_cast<std::size_t>(n_bytes));
  decode_zstd(in, out, origin);
  return out;
}

std::vector<std::byte> decode_any_blosc(std::span<const std::byte> in, std::size_t max_bytes,
                                        const ChunkOrigin& origin) {
  std::size_t n_bytes = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH ||
      blosc_cbuffer_validate(in.data(), in.size(), &n_bytes) != 0)
    throw_damaged_chunk(origin, fmt::format("{} bytes are no Blosc buffer", in.size()));
  require_room(n_bytes, max_bytes, origin);
  std::vector<std::byte> out(n_bytes);
  decode_blosc(in, out, origin);
  return out;
}

std::vector<std::byte> decode_any_lz4(std::span<const std::byte> in, std::size_t max_bytes,
                                      const ChunkOrigin& origin) {
  const std::size_t n_bytes = lz4_length(in, origin);
  require_room(n_bytes, max_bytes, origin);
  std::vector<std::byte> out(n_bytes);
  decode_lz4_block(in.subspan(4), out, origin);
  return out;
}

void decode_lz4_numcodecs(std::span<const std::byte> in, std::span<std::byte> out,
                          const ChunkOrigin& origin) {
  if (const std::size_t n_bytes = lz4_length(in, origin); n_bytes != out.size())
    throw_damaged_chunk(
        origin, fmt::format("lz4 data holds {} bytes, {} are promised", n_bytes, out.size()));
  decode_lz4_block(in.subspan(4), out, origin);
}

}  // namespace cellfeed::io
