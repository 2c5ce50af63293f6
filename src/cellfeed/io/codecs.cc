#include "cellfeed/io/codecs.h"

#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

template <typename... Args>
[[noreturn]] void throw_damaged(const ChunkOrigin& origin, fmt::format_string<Args...> text,
                                Args&&... args) {
  throw_damaged_chunk(origin, fmt::format(text, std::forward<Args>(args)...));
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* state) const { libdeflate_free_decompressor(state); }
};

libdeflate_decompressor* deflate_state() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> state(
      libdeflate_alloc_decompressor());
  if (!state) throw std::bad_alloc();
  return state.get();
}

std::string_view deflate_reason(libdeflate_result result) {
  switch (result) {
    case LIBDEFLATE_BAD_DATA:
      return "not valid deflate data, or its checksum differs";
    case LIBDEFLATE_SHORT_OUTPUT:
      return "it holds fewer bytes than promised";
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      return "it holds more bytes than promised";
    case LIBDEFLATE_SUCCESS:
      break;
  }
  return "unknown";
}

struct FreeZstd {
  void operator()(ZSTD_DCtx* state) const { ZSTD_freeDCtx(state); }
};

ZSTD_DCtx* zstd_state() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeZstd> state(ZSTD_createDCtx());
  if (!state) throw std::bad_alloc();
  return state.get();
}

}  // namespace

std::uint64_t read_big_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint64_t>(byte);
  return value;
}

std::uint64_t read_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

void throw_damaged_chunk(const ChunkOrigin& origin, std::string_view what) {
  throw_error(ErrorKind::kCorruptData, std::string(origin.path),
              "damaged chunk at offset {}: {}; copy or download the file again", origin.offset,
              what);
}

// Bytes after the end of the stream are allowed, as in HDF5 itself.
void inflate_zlib(std::span<const std::byte> in, std::span<std::byte> out,
                  const ChunkOrigin& origin) {
  const libdeflate_result result = libdeflate_zlib_decompress(deflate_state(), in.data(), in.size(),
                                                              out.data(), out.size(), nullptr);
  if (result != LIBDEFLATE_SUCCESS) {
    throw_damaged(origin, "zlib stream of {} bytes for {} bytes of data: {}", in.size(), out.size(),
                  deflate_reason(result));
  }
}

void inflate_gzip(std::span<const std::byte> in, std::span<std::byte> out,
                  const ChunkOrigin& origin) {
  std::size_t read = 0;
  std::size_t written = 0;
  do {  // a file may hold several members
    std::size_t member_in = 0;
    std::size_t member_out = 0;
    const libdeflate_result result = libdeflate_gzip_decompress_ex(
        deflate_state(), in.data() + read, in.size() - read, out.data() + written,
        out.size() - written, &member_in, &member_out);
    if (result != LIBDEFLATE_SUCCESS) {
      throw_damaged(origin, "gzip member of {} bytes for {} bytes of data: {}", in.size() - read,
                    out.size() - written, deflate_reason(result));
    }
    read += member_in;
    written += member_out;
  } while (read < in.size());
  if (written != out.size()) {
    throw_damaged(origin, "gzip data holds {} bytes, {} are promised", written, out.size());
  }
}

// A control byte below 32 is followed by that many literals plus one; else its top three bits are
// a match length less two (7: one more length byte), and its low five with the next byte a distance
// less one.
void decode_lzf(std::span<const std::byte> in, std::span<std::byte> out,
                const ChunkOrigin& origin) {
  const auto* source = reinterpret_cast<const std::uint8_t*>(in.data());
  const auto* const source_end = source + in.size();
  auto* target = reinterpret_cast<std::uint8_t*>(out.data());
  auto* const target_begin = target;
  auto* const target_end = target + out.size();
  const auto require = [&](bool is_sound, std::string_view what) {
    if (!is_sound) {
      throw_damaged(origin, "lzf data of {} bytes for {} bytes of data: {}", in.size(), out.size(),
                    what);
    }
  };
  while (source < source_end) {
    const unsigned control = *source++;
    if (control < 32) {
      const std::ptrdiff_t length = control + 1;
      require(length <= source_end - source, "it ends inside literals");
      require(length <= target_end - target, "it holds more bytes than promised");
      std::memcpy(target, source, static_cast<std::size_t>(length));
      source += length;
      target += length;
      continue;
    }
    std::ptrdiff_t length = control >> 5;
    require(source_end - source >= (length == 7 ? 2 : 1), "it ends inside a match");
    if (length == 7) length += *source++;
    length += 2;
    const std::ptrdiff_t distance = ((control & 31u) << 8 | *source++) + 1;
    require(distance <= target - target_begin, "a match begins before the data");
    require(length <= target_end - target, "it holds more bytes than promised");
    if (distance >= length) {
      std::memcpy(target, target - distance, static_cast<std::size_t>(length));
      target += length;
    } else {  // overlapping: each byte may be one just written
      for (auto* const end = target + length; target < end; ++target) *target = target[-distance];
    }
  }
  require(target == target_end, "it holds fewer bytes than promised");
}

void decode_zstd(std::span<const std::byte> in, std::span<std::byte> out,
                 const ChunkOrigin& origin) {
  const std::size_t result =
      ZSTD_decompressDCtx(zstd_state(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(result) != 0) {
    throw_damaged(origin, "zstd data of {} bytes for {} bytes of data: {}", in.size(), out.size(),
                  ZSTD_getErrorName(result));
  }
  if (result != out.size()) {
    throw_damaged(origin, "zstd data holds {} bytes, {} are promised", result, out.size());
  }
}

void decode_lz4_block(std::span<const std::byte> in, std::span<std::byte> out,
                      const ChunkOrigin& origin) {
  constexpr std::size_t kMax = std::numeric_limits<int>::max();
  if (in.size() > kMax || out.size() > kMax) {
    throw_damaged(origin, "an lz4 block cannot be above 2 GiB: {} bytes for {} bytes of data",
                  in.size(), out.size());
  }
  const int result = LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()),
                                         reinterpret_cast<char*>(out.data()),
                                         static_cast<int>(in.size()), static_cast<int>(out.size()));
  if (result < 0 || static_cast<std::size_t>(result) != out.size()) {
    throw_damaged(origin, "lz4 block of {} bytes does not hold the {} bytes promised", in.size(),
                  out.size());
  }
}

// Big-endian: data size (8 bytes), block size (4); then each block's stored size (4) and bytes. A
// block that is stored as long as it is was not compressed.
void decode_lz4_hdf5(std::span<const std::byte> in, std::span<std::byte> out,
                     const ChunkOrigin& origin) {
  if (in.size() < 12) throw_damaged(origin, "lz4 frame of {} bytes has no header", in.size());
  const std::uint64_t promised = read_big_endian(in.first(8));
  const std::uint64_t block_bytes = read_big_endian(in.subspan(8, 4));
  if (promised != out.size()) {
    throw_damaged(origin, "lz4 frame holds {} bytes, {} are promised", promised, out.size());
  }
  if (block_bytes == 0) throw_damaged(origin, "lz4 frame has blocks of {} bytes", block_bytes);
  in = in.subspan(12);
  while (!out.empty()) {
    if (in.size() < 4) throw_damaged(origin, "lz4 frame ends {} bytes early", out.size());
    const std::uint64_t stored = read_big_endian(in.first(4));
    in = in.subspan(4);
    if (stored > in.size()) {
      throw_damaged(origin, "lz4 frame ends inside a block of {} bytes", stored);
    }
    const auto block = out.first(
        static_cast<std::size_t>(std::min(block_bytes, static_cast<std::uint64_t>(out.size()))));
    const auto bytes = in.first(static_cast<std::size_t>(stored));
    if (stored == block.size()) {
      std::memcpy(block.data(), bytes.data(), block.size());
    } else {
      decode_lz4_block(bytes, block, origin);
    }
    in = in.subspan(bytes.size());
    out = out.subspan(block.size());
  }
}

std::uint32_t fletcher32(std::span<const std::byte> data) {
  // 360 words of 16 bits cannot overflow the 32-bit sums before they are folded.
  constexpr std::size_t kBytesPerFold = 720;
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  const auto fold = [&] {
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  };
  for (std::size_t i = 0; i < data.size(); i += kBytesPerFold) {
    const std::size_t end = std::min(data.size(), i + kBytesPerFold);
    for (std::size_t j = i; j < end; j += 2) {
      const auto high = std::to_integer<std::uint32_t>(data[j]);
      const auto low = j + 1 < end ? std::to_integer<std::uint32_t>(data[j + 1]) : 0;
      sum1 += high << 8 | low;
      sum2 += sum1;
    }
    fold();
  }
  fold();
  return sum2 << 16 | sum1;
}

std::span<const std::byte> check_fletcher32(std::span<const std::byte> in,
                                            const ChunkOrigin& origin) {
  if (in.size() < 4) {
    throw_damaged(origin, "{} bytes are too few for a Fletcher-32 checksum", in.size());
  }
  const auto data = in.first(in.size() - 4);
  std::uint32_t stored = 0;
  for (int i = 3; i >= 0; --i) {
    stored =
        stored << 8 | std::to_integer<std::uint32_t>(in[data.size() + static_cast<std::size_t>(i)]);
  }
  const std::uint32_t computed = fletcher32(data);
  // HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines.
  const std::uint32_t swapped = (computed & 0x00ff00ff) << 8 | (computed >> 8 & 0x00ff00ff);
  if (stored != computed && stored != swapped) {
    throw_damaged(origin, "Fletcher-32 checksum is {:08x}, the file says {:08x}", computed, stored);
  }
  return data;
}

}  // namespace cellfeed::io
