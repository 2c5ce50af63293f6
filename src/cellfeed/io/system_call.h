// System calls that a signal may interrupt, and the times that they tell.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::io {

// The result of `call`, made again for as long as a signal interrupts it. Not for close(2), which
// has closed the descriptor all the same.
template <typename Call>
auto retry_interrupted(const Call& call) {
  while (true) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// Since 1970.
inline std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Writes all bytes at offset, in as many calls as it takes. Both move on with what is written:
// where it fails, false and errno, they say what is left, and from where.
inline bool write_whole(int fd, std::span<const std::byte>& bytes, std::int64_t& offset) {
  while (!bytes.empty()) {
    const ssize_t n =
        retry_interrupted([&] { return ::pwrite(fd, bytes.data(), bytes.size(), offset); });
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return true;
}

}  // namespace cellfeed::io
