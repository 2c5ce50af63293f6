#include "cellfeed/io/running_checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <new>
#include <vector>

namespace cellfeed::io {

RunningChecksum::RunningChecksum() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  reset();
}

void RunningChecksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

void RunningChecksum::add(const ByteSource& source,
                          const std::function<void(std::int64_t, std::int64_t)>& progress) {
  constexpr std::int64_t kPartBytes = std::int64_t{4} << 20;
  const std::int64_t size = source.size();
  std::vector<std::byte> part(static_cast<std::size_t>(std::min(kPartBytes, size)));
  for (std::int64_t at = 0; at < size; at += std::ssize(part)) {
    const auto read =
        std::span(part).first(static_cast<std::size_t>(std::min(kPartBytes, size - at)));
    source.read(at, read);
    add(read);
    if (progress) progress(at + std::ssize(read), size);
  }
}

std::uint64_t RunningChecksum::value() const { return XXH3_64bits_digest(state_.get()); }

void RunningChecksum::reset() { XXH3_64bits_reset(state_.get()); }

void RunningChecksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

}  // namespace cellfeed::io
