// Copies stored rows at the speed of memory: while one row is copied, the lines of the row to come
// are asked for. The best instruction set of the machine is chosen at run time (Highway).
// Thread-safe: each call touches its row only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::format {

// Bytes that will be read after those being copied; none by default.
struct UpcomingBytes {
  const std::byte* data = nullptr;
  std::int64_t size = 0;
};

// Asks for all of them at once, where nothing is copied meanwhile.
inline void ask_for(UpcomingBytes upcoming) {
  for (std::int64_t at = 0; at < upcoming.size; at += 64) __builtin_prefetch(upcoming.data + at);
}

// Copies n column indices and says whether each is larger than the one before. past_caches: with
// non-temporal stores, for rows that nobody reads soon. REQUIRES: from and to do not overlap; `to`
// is aligned to 4 bytes, from to nothing.
bool copy_ascending(const std::byte* from, std::int64_t n, std::int32_t* to, UpcomingBytes upcoming,
                    bool past_caches);

// Whether vector gathers look places up sooner than single loads: on processors of Intel from
// Sapphire Rapids on. Older ones and those of AMD take as long or longer.
bool gathers_soon();

// Copies the places of n column indices, which stand in `narrow` if it is not empty. True when each
// index is larger than the one before and has a place; otherwise `to` holds garbage. gathers: where
// the instruction set has vectors for it, of narrow places. REQUIRES: as copy_ascending, but `to`
// may be `from` unless it is written past the caches.
bool copy_places(const std::byte* from, std::int64_t n, std::span<const std::int32_t> places,
                 std::span<const std::uint16_t> narrow, std::int32_t* to, UpcomingBytes upcoming,
                 bool past_caches, bool gathers = gathers_soon());

// memcpy, with the same care for what comes next.
void copy_bytes(const std::byte* from, std::int64_t size, std::byte* to, UpcomingBytes upcoming,
                bool past_caches);

// Makes rows copied past the caches visible to other threads; to be called once after some of them.
void publish_row_copies(bool past_caches);

}  // namespace cellfeed::format
