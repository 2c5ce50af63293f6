#include "cellfeed/series/longer_checksums.h"

#include "cellfeed/base/error.h"

namespace cellfeed::series {

std::vector<std::uint64_t> longer_checksums(const LongerFile& file, std::int64_t before,
                                            std::span<const std::uint64_t> known,
                                            SeriesWork& work) {
  const std::int64_t last = n_segments(before) - 1;
  if (before > 0 && file.segment_checksum(last, before) != known[static_cast<std::size_t>(last)])
    throw_error(ErrorKind::kCorruptData, file.path(),
                "is damaged within its last {} bytes; verify it, and build the series again",
                before - last * kSegmentBytes);
  const std::int64_t n_whole = before / kSegmentBytes;
  std::vector<std::uint64_t> checksums(known.begin(), known.begin() + n_whole);
  checksums.resize(static_cast<std::size_t>(n_segments(file.size())));
  work.pool().parallel_for(n_segments(file.size()) - n_whole, [&](std::int64_t i) {
    checksums[static_cast<std::size_t>(n_whole + i)] = file.segment_checksum(n_whole + i);
    work.check_stop();
  });
  return checksums;
}

}  // namespace cellfeed::series
