// Record kernels chosen at run time.
#include "cellfeed/format/shard/record_kernels.h"

#include <algorithm>

#include "cellfeed/format/shard/record_layout.h"

namespace cellfeed::format::shard::record {
namespace {

// Proves from the widths alone that all blocks fill data..end and that no number has more than
// kMaxFastBits.
BlockStatus check_widths(const BlockRequest& request) {
  const int streams = request.output == CodeOutput::kNone ? 1 : 2;
  const std::uint8_t* word = request.words;
  std::uint64_t bytes = 0;
  bool valid = true;
  int bits = 0;
  for (std::int64_t left = request.nnz; left > 0; left -= kBlockEntries) {
    const int entries = static_cast<int>(std::min<std::int64_t>(left, kBlockEntries));
    for (int stream = 0; stream < streams; ++stream, word += kWordBytes) {
      const auto widths = StreamWidths::from_word(load<std::uint16_t>(word));
      valid &= widths.is_valid(entries);
      bits = std::max(bits, widths.max_bits());
      bytes += widths.bytes(entries);
    }
  }
  if (!valid) return BlockStatus::kBadBlock;
  if (bytes > static_cast<std::uint64_t>(request.end - request.data))
    return BlockStatus::kTruncated;
  return bits > kMaxFastBits ? BlockStatus::kTooWide : BlockStatus::kDone;
}

}  // namespace

BlockResult unpack_blocks(const BlockRequest& request) {
  const BlockStatus status = check_widths(request);
  if (status != BlockStatus::kDone) return {status, request.data};
  return unpack_blocks_scalar(request);
}

}  // namespace cellfeed::format::shard::record
