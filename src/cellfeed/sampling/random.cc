// Philox 4x32-10 through Random123, keyed per (seed, epoch, purpose).
#include "cellfeed/sampling/random.h"

#include <Random123/philox.h>

namespace cellfeed::sampling {
namespace {

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
std::uint64_t join(std::uint32_t lo, std::uint32_t hi) { return std::uint64_t{hi} << 32 | lo; }

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  const r123::Philox4x32::ctr_type counter = {
      {low(counter_low), high(counter_low), low(counter_high), high(counter_high)}};
  const r123::Philox4x32::key_type k = {{low(key), high(key)}};
  const auto out = r123::Philox4x32()(counter, k);
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t epoch, Purpose purpose) {
  const auto w = philox(seed, epoch, static_cast<std::uint64_t>(purpose));
  key_ = join(w[0], w[1]);
}

std::array<std::uint32_t, 4> RandomStream::words(std::uint64_t index,
                                                 std::uint64_t substream) const {
  return philox(key_, index, substream);
}

TwoWords RandomStream::two_words(std::uint64_t index, std::uint64_t substream) const {
  const auto w = words(index, substream);
  return {join(w[0], w[1]), join(w[2], w[3])};
}

std::uint64_t RandomStream::bits(std::uint64_t index, std::uint64_t substream) const {
  return two_words(index, substream).first;
}

std::uint64_t RandomStream::bounded(std::uint64_t index, std::uint64_t range) const {
  std::uint64_t threshold = 0;  // computed only where a rejection is possible
  for (std::uint64_t attempt = 0;; ++attempt) {
    const auto product = static_cast<unsigned __int128>(bits(index, attempt)) * range;
    const auto fraction = static_cast<std::uint64_t>(product);
    if (fraction < range && threshold == 0) threshold = (0 - range) % range;
    if (fraction >= threshold) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace cellfeed::sampling
