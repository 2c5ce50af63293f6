#include "cellfeed/series/placed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::series {

PlacedFile::PlacedFile(io::FileTarget target, std::int64_t bytes)
    : file_(std::move(target), io::OnExisting::kRefuse), bytes_(bytes) {
  if (bytes == 0) return;
  const auto take_room = [&] { return ::fallocate(file_.fd(), 0, 0, bytes); };
  const auto set_size = [&] { return ::ftruncate(file_.fd(), bytes); };
  int result = io::retry_interrupted(take_room);
  // File systems without fallocate say that there is no room when they are written to.
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
    result = io::retry_interrupted(set_size);
  if (result != 0) throw_errno(errno, file_.path(), fmt::format("make room for {} bytes", bytes));
}

void PlacedFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = io::retry_interrupted(
        [&] { return ::pwrite(file_.fd(), bytes.data(), bytes.size(), offset); });
    if (n < 0) throw_errno(errno, file_.path(), "write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

std::uint64_t PlacedFile::segment_checksum(std::int64_t segment) const {
  const std::int64_t begin = segment * kSegmentBytes;
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kSegmentBytes, bytes_ - begin)));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = io::retry_interrupted([&] {
      return ::pread(file_.fd(), bytes.data() + done, bytes.size() - done,
                     begin + static_cast<std::int64_t>(done));
    });
    if (n < 0) throw_errno(errno, file_.path(), "read back");
    if (n == 0) throw Error(ErrorKind::kIo, "became shorter while it was written", file_.path());
    done += static_cast<std::size_t>(n);
  }
  return format::shard::checksum_bytes(bytes);
}

}  // namespace cellfeed::series
