#include "cellfeed/format/zarr/tree_fingerprint.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/io/range_reads.h"
#include "cellfeed/io/running_checksum.h"
#include "cellfeed/zarr/chunk_source.h"

namespace cellfeed::format::zarr {
namespace {

namespace zr = cellfeed::zarr;

constexpr int kMaxHashedDepth = 3;  // of groups: "obs" / a column / its values
constexpr std::int64_t kHashedChunks = 16;
constexpr std::int64_t kHashedBytes = 64 << 10;
constexpr std::int64_t kBytesAtOnce = 16 << 20;

struct SampledChunk {
  const zr::ChunkSource* chunks = nullptr;
  std::int64_t chunk = 0;
  zr::ChunkPlace place = {};

  // What of it is read.
  std::vector<io::ByteRange> ranges() const {
    const std::int64_t all = place.range.length, begin = place.range.offset;
    if (all == 0) return {};
    if (all <= kHashedBytes) return {place.range};
    return {{begin, kHashedBytes}, {begin + all - kHashedBytes, kHashedBytes}};
  }
};

class Fingerprint {
 public:
  explicit Fingerprint(const zr::Hierarchy& store) : store_(store) {}

  void add(const std::string& path, int depth) {
    const auto node = store_.find(path);
    add_text(path);
    add_text(store_.text_of(path));
    if (!node) return;
    if (node->is_array) return add_array(*node, path);
    if (depth == kMaxHashedDepth) return;
    for (const std::string& name : store_.members(path)) add(path + "/" + name, depth + 1);
  }

  std::uint64_t value() {
    wait_side_by_side(std::ssize(samples_), store_.store().is_local(), [&](std::int64_t i) {
      SampledChunk& sample = samples_[static_cast<std::size_t>(i)];
      sample.place = sample.chunks->locate(sample.chunk);
    });
    for (std::size_t at = 0; at < samples_.size();) at = add_samples(at);
    return checksum_.value();
  }

 private:
  void add_text(const std::string& text) {
    const std::uint64_t size = text.size();
    checksum_.add(std::as_bytes(std::span(&size, 1)));
    checksum_.add(std::as_bytes(std::span(text)));
  }

  // What is not readable here is told apart by its metadata.
  void add_array(const zr::Node& node, const std::string& path) {
    try {
      arrays_.push_back(std::make_unique<const zr::ChunkSource>(store_.shared_store(), path,
                                                                store_.array_of(node, path)));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      return;
    }
    const zr::ChunkSource& chunks = *arrays_.back();
    const std::int64_t n_chunks = chunks.n_chunks(), n = std::min(n_chunks, kHashedChunks);
    for (std::int64_t i = 0; i < n; ++i)
      samples_.push_back({&chunks, n == 1 ? 0 : i * (n_chunks - 1) / (n - 1)});
  }

  // As many from `begin` on as are read at once; where the next ones begin.
  std::size_t add_samples(std::size_t begin) {
    io::RangeReads reads;
    std::vector<std::size_t> n_ranges;  // of each sample
    std::int64_t n_bytes = 0;
    std::size_t end = begin;
    for (; end < samples_.size() && n_bytes < kBytesAtOnce; ++end) {
      const auto ranges = samples_[end].ranges();
      n_ranges.push_back(ranges.size());
      for (const io::ByteRange& range : ranges) {
        reads.add(*samples_[end].chunks, range);
        n_bytes += range.length;
      }
    }
    reads.begin();
    reads.wait();
    std::size_t number = 0;
    for (std::size_t i = begin; i < end; ++i) {
      checksum_.add(std::as_bytes(std::span(&samples_[i].place.range.length, 1)));
      for (std::size_t k = 0; k < n_ranges[i - begin]; ++k) checksum_.add(reads.bytes(number++));
    }
    return end;
  }

  const zr::Hierarchy& store_;
  io::RunningChecksum checksum_;
  std::vector<std::unique_ptr<const zr::ChunkSource>> arrays_;
  std::vector<SampledChunk> samples_;
};

}  // namespace

std::uint64_t tree_fingerprint(const zr::Hierarchy& store, std::span<const std::string> groups) {
  Fingerprint found(store);
  for (const std::string& group : groups) found.add(zr::Hierarchy::as_written(group), 0);
  return found.value();
}

}  // namespace cellfeed::format::zarr
