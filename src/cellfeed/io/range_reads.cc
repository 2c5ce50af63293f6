#include "cellfeed/io/range_reads.h"

#include <algorithm>
#include <iterator>

namespace cellfeed::io {
namespace {

std::int64_t round_up_to_block(std::int64_t value, std::int64_t block) {
  return (value + block - 1) / block * block;
}

// So that they are read where they are used.
ByteRange whole_blocks(const ByteSource& source, ByteRange range) {
  const std::int64_t block = source.alignment();
  const std::int64_t begin = range.offset - range.offset % block;
  const std::int64_t end =
      std::min(round_up_to_block(range.offset + range.length, block), source.size());
  return {begin, range.length == 0 ? 0 : end - begin};
}

}  // namespace

std::size_t RangeReads::add(const ByteSource& source, ByteRange range) {
  auto of = std::ranges::find(sources_, &source, &OfSource::source);
  if (of == sources_.end()) {
    sources_.emplace_back().source = &source;
    of = std::prev(sources_.end());
  }
  places_.push_back({static_cast<std::size_t>(of - sources_.begin()), of->ranges.size()});
  of->ranges.push_back(range);
  of->blocks.push_back(whole_blocks(source, range));
  return places_.size() - 1;
}

void RangeReads::begin() {
  for (OfSource& of : sources_) begin(of);
}

void RangeReads::begin(OfSource& of) const {
  const ReadCosts costs = of.source->costs();
  of.plan = coalesce(of.blocks, std::min(costs.gap_bytes, longest_gap_), costs.max_read_bytes);
  std::int64_t total = 0;
  for (const ByteRange& read : of.plan.reads) {
    of.begins.push_back(total);
    total += round_up_to_block(read.length, of.source->alignment());
  }
  of.buffer = ReadBuffer(static_cast<std::size_t>(total));
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < of.plan.reads.size(); ++i)
    requests.push_back(
        {of.plan.reads[i].offset,
         {of.buffer.data() + of.begins[i], static_cast<std::size_t>(of.plan.reads[i].length)}});
  of.pending = of.source->begin_read_many(requests);
}

void RangeReads::wait() {
  for (OfSource& of : sources_)
    if (of.pending) of.pending->wait();
}

std::span<const std::byte> RangeReads::bytes(std::size_t number) const {
  const Place& place = places_[number];
  const OfSource& of = sources_[place.source];
  const ByteRange& range = of.ranges[place.range];
  if (range.length == 0) return {};
  const RangePlace& at = of.plan.places[place.range];
  const std::int64_t skipped = range.offset - of.blocks[place.range].offset;
  return {of.buffer.data() + of.begins[static_cast<std::size_t>(at.read)] + at.offset + skipped,
          static_cast<std::size_t>(range.length)};
}

std::int64_t RangeReads::bytes_read() const {
  std::int64_t bytes = 0;
  for (const OfSource& of : sources_)
    for (const ByteRange& read : of.plan.reads) bytes += read.length;
  return bytes;
}

std::int64_t RangeReads::bytes_held() const {
  std::int64_t bytes = 0;
  for (const OfSource& of : sources_)
    bytes += static_cast<std::int64_t>(of.buffer.capacity_bytes());
  return bytes;
}

std::int64_t RangeReads::planned_bytes(const ByteSource& source, std::int64_t n,
                                       std::int64_t n_bytes) {
  // Of each read the blocks at both ends, and the gap before it; reads never overlap.
  const std::int64_t block = source.alignment();
  const std::int64_t bytes =
      std::min(n_bytes + n * (source.costs().gap_bytes + 2 * block), source.size() + 4 * block);
  return static_cast<std::int64_t>(ReadBuffer::planned_capacity(static_cast<std::size_t>(bytes)));
}

}  // namespace cellfeed::io
