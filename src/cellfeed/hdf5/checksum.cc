// lookup3: three words of state, mixed after each twelve bytes.
#include "cellfeed/hdf5/checksum.h"

#include <algorithm>
#include <array>
#include <bit>

namespace cellfeed::hdf5 {
namespace {

struct State {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;

  void add(std::span<const std::byte> block) {
    std::array<std::uint32_t, 3> words{};
    for (std::size_t i = 0; i < block.size(); ++i)
      words[i / 4] |= std::to_integer<std::uint32_t>(block[i]) << (8 * (i % 4));
    a += words[0];
    b += words[1];
    c += words[2];
  }

  void mix() {
    step(a, c, b, 4);
    step(b, a, c, 6);
    step(c, b, a, 8);
    step(a, c, b, 16);
    step(b, a, c, 19);
    step(c, b, a, 4);
  }

  void finish() {
    last_step(c, b, 14);
    last_step(a, c, 11);
    last_step(b, a, 25);
    last_step(c, b, 16);
    last_step(a, c, 4);
    last_step(b, a, 14);
    last_step(c, b, 24);
  }

 private:
  static void step(std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int bits) {
    x -= y;
    x ^= std::rotl(y, bits);
    y += z;
  }
  static void last_step(std::uint32_t& x, std::uint32_t y, int bits) {
    x ^= y;
    x -= std::rotl(y, bits);
  }
};

}  // namespace

std::uint32_t metadata_checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlockBytes = 12;
  const std::uint32_t start = 0xdeadbeefu + static_cast<std::uint32_t>(bytes.size());
  State state{start, start, start};
  if (bytes.empty()) return state.c;
  for (; bytes.size() > kBlockBytes; bytes = bytes.subspan(kBlockBytes)) {
    state.add(bytes.first(kBlockBytes));
    state.mix();
  }
  state.add(bytes);
  state.finish();
  return state.c;
}

}  // namespace cellfeed::hdf5
