#include "cellfeed/zarr/chunk_reads.h"

namespace cellfeed::zarr {

std::size_t ChunkReads::add(const ChunkPlace& place) {
  Stored stored{.mapped = source_.mapped(place.range), .read = {}};
  if (stored.mapped.data() == nullptr) stored.read = reads_.add(source_, place.range);
  stored_.push_back(stored);
  return stored_.size() - 1;
}

void ChunkReads::read() {
  reads_.begin();
  reads_.wait();
}

std::span<const std::byte> ChunkReads::bytes(std::size_t number) const {
  const Stored& stored = stored_[number];
  return stored.read ? reads_.bytes(*stored.read) : stored.mapped;
}

}  // namespace cellfeed::zarr
