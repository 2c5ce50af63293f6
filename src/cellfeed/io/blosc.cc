// Blosc 1 buffers, through the library's calls that keep no global state.
#include <blosc.h>

#include "cellfeed/base/error.h"
#include "cellfeed/io/codecs.h"

namespace cellfeed::io {

void decode_blosc(std::span<const std::byte> in, std::span<std::byte> out,
                  const ChunkOrigin& origin) {
  std::size_t promised = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH ||
      blosc_cbuffer_validate(in.data(), in.size(), &promised) != 0)
    throw_damaged_chunk(origin, fmt::format("{} bytes are no Blosc buffer", in.size()));
  if (promised != out.size())
    throw_damaged_chunk(
        origin, fmt::format("Blosc buffer holds {} bytes, {} are promised", promised, out.size()));
  if (out.empty()) return;
  constexpr int kThreads = 1;
  const int result = blosc_decompress_ctx(in.data(), out.data(), out.size(), kThreads);
  if (result < 0 || static_cast<std::size_t>(result) != out.size())
    throw_damaged_chunk(origin,
                        fmt::format("Blosc buffer of {} bytes does not hold the {} bytes promised",
                                    in.size(), out.size()));
}

}  // namespace cellfeed::io
