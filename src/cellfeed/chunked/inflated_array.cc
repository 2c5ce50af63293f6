#include "cellfeed/chunked/inflated_array.h"

namespace cellfeed::chunked {

InflatedArray::InflatedArray(std::int64_t n_chunks, std::int64_t chunk_bytes)
    : chunk_bytes_(static_cast<std::size_t>(chunk_bytes)),
      states_(new std::atomic<std::uint8_t>[static_cast<std::size_t>(n_chunks)]()),
      bytes_(static_cast<std::size_t>(n_chunks) * chunk_bytes_) {}

bool InflatedArray::fill(std::int64_t chunk,
                         const std::function<void(std::span<std::byte>)>& inflate) {
  std::atomic<std::uint8_t>& state = states_[chunk];
  std::uint8_t seen = kEmpty;
  while (!state.compare_exchange_strong(seen, kFilling, std::memory_order_acq_rel)) {
    if (seen == kReady) return false;
    state.wait(kFilling, std::memory_order_acquire);
    seen = kEmpty;
  }
  const auto settle = [&](State now) {
    state.store(now, std::memory_order_release);
    state.notify_all();
  };
  try {
    inflate({bytes_.data() + static_cast<std::size_t>(chunk) * chunk_bytes_, chunk_bytes_});
  } catch (...) {
    settle(kEmpty);
    throw;
  }
  settle(kReady);
  return true;
}

}  // namespace cellfeed::chunked
