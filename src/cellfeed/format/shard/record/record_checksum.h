// The checksum behind each record of a .cells file (docs/format/shard.md, "Records"): of its bytes,
// and of where they belong. Thread-safe: no state is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cellfeed/format/shard/checksum.h"

namespace cellfeed::format::shard {

inline constexpr std::size_t kRecordChecksumBytes = 4;

// Where a record belongs: what the row table says of it, so that a wrong entry shows.
struct RecordPlace {
  std::uint64_t shard = 0;
  std::uint64_t row = 0;
  std::uint64_t length = 0;  // of the record, without its checksum
  std::uint64_t nnz = 0;
};

// The low half of its checksum.
inline std::uint32_t hash_record(std::span<const std::uint8_t> record) {
  return static_cast<std::uint32_t>(checksum_bytes(std::as_bytes(record)));
}

// Each multiplier is odd, so that two places that differ in one number never have one mark (shards
// and rows below 2^32).
constexpr std::uint32_t mark_of_place(const RecordPlace& place) {
  return static_cast<std::uint32_t>(
      place.row * 0x9e3779b97f4a7c15u ^ place.length * 0xc2b2ae3d27d4eb4fu ^
      place.nnz * 0x165667b19e3779f9u ^ place.shard * 0x85ebca77c2b2ae63u);
}

constexpr std::uint32_t record_checksum(std::uint32_t hash, const RecordPlace& place) {
  return hash ^ mark_of_place(place);
}

}  // namespace cellfeed::format::shard
