#include "cellfeed/chunked/stored_reads.h"

#include <algorithm>

namespace cellfeed::chunked {

std::size_t StoredReads::add(const io::ByteSource& source, io::ByteRange range) {
  auto of = std::ranges::find(sources_, &source, &OfSource::source);
  if (of == sources_.end()) {
    sources_.emplace_back().source = &source;
    of = std::prev(sources_.end());
  }
  places_.push_back({static_cast<std::size_t>(of - sources_.begin()), of->ranges.size()});
  of->ranges.push_back(range);
  return places_.size() - 1;
}

void StoredReads::begin() {
  for (OfSource& of : sources_) {
    const io::ReadCosts costs = of.source->costs();
    of.plan = io::coalesce(of.ranges, costs.gap_bytes, costs.max_read_bytes);
    std::int64_t total = 0;
    for (const io::ByteRange& read : of.plan.reads) {
      of.begins.push_back(total);
      total += read.length;
    }
    of.buffer = io::ReadBuffer(static_cast<std::size_t>(total));
    std::vector<io::ReadRequest> requests;
    for (std::size_t i = 0; i < of.plan.reads.size(); ++i)
      requests.push_back(
          {of.plan.reads[i].offset,
           {of.buffer.data() + of.begins[i], static_cast<std::size_t>(of.plan.reads[i].length)}});
    of.pending = of.source->begin_read_many(requests);
  }
}

void StoredReads::wait() {
  for (OfSource& of : sources_)
    if (of.pending) of.pending->wait();
}

std::span<const std::byte> StoredReads::bytes(std::size_t number) const {
  const Place& place = places_[number];
  const OfSource& of = sources_[place.source];
  const io::RangePlace& at = of.plan.places[place.range];
  return {of.buffer.data() + of.begins[static_cast<std::size_t>(at.read)] + at.offset,
          static_cast<std::size_t>(of.ranges[place.range].length)};
}

std::int64_t StoredReads::bytes_held() const {
  std::int64_t bytes = 0;
  for (const OfSource& of : sources_)
    bytes += static_cast<std::int64_t>(of.buffer.capacity_bytes());
  return bytes;
}

}  // namespace cellfeed::chunked
