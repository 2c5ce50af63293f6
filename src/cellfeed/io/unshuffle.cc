// The inverse of the byte shuffle. Widths of the usual element types are compiled for the vector
// unit.
#include <cstdint>
#include <cstring>

#include "cellfeed/base/error.h"
#include "cellfeed/io/codecs.h"

namespace cellfeed::io {
namespace {

template <std::size_t kWidth>
void unshuffle_fixed(const std::uint8_t* __restrict in, std::uint8_t* __restrict out,
                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t plane = 0; plane < kWidth; ++plane) {
      out[i * kWidth + plane] = in[plane * count + i];
    }
  }
}

void unshuffle_any(const std::uint8_t* __restrict in, std::uint8_t* __restrict out,
                   std::size_t count, std::size_t width) {
  for (std::size_t plane = 0; plane < width; ++plane) {
    for (std::size_t i = 0; i < count; ++i) out[i * width + plane] = in[plane * count + i];
  }
}

}  // namespace

void unshuffle(std::span<const std::byte> in, std::span<std::byte> out, std::size_t element_bytes) {
  if (in.size() != out.size() || element_bytes == 0) {
    throw_error(ErrorKind::kInternal, {}, "unshuffle of {} bytes to {}, elements of {} bytes",
                in.size(), out.size(), element_bytes);
  }
  if (in.empty()) return;
  const auto* source = reinterpret_cast<const std::uint8_t*>(in.data());
  auto* target = reinterpret_cast<std::uint8_t*>(out.data());
  const std::size_t count = in.size() / element_bytes;
  if (count <= 1) {  // of any width that a file may claim
    std::memcpy(target, source, in.size());
    return;
  }
  switch (element_bytes) {
    case 1:
      std::memcpy(target, source, count);
      break;
    case 2:
      unshuffle_fixed<2>(source, target, count);
      break;
    case 4:
      unshuffle_fixed<4>(source, target, count);
      break;
    case 8:
      unshuffle_fixed<8>(source, target, count);
      break;
    default:
      unshuffle_any(source, target, count, element_bytes);
      break;
  }
  const std::size_t whole = count * element_bytes;
  if (whole < in.size()) std::memcpy(target + whole, source + whole, in.size() - whole);
}

}  // namespace cellfeed::io
