// ZarrArray: an array of numbers of a zarr store. Chunks, of shards those in them, are located when
// they are first needed. Thread-safe. Lifetime: the store's Hierarchy outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cellfeed/chunked/chunk_places.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_tree.h"
#include "cellfeed/zarr/chunk_source.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::zarr {

// Throws kUnsupported for what holds no numbers.
StoredNumber number_of(const cellfeed::zarr::DataType& type, const std::string& path,
                       const std::string& name);

class ZarrArray final : public StoredArray {
 public:
  // REQUIRES: array is at `name`. Throws kCorruptData, also where it has another rank, or
  // kUnsupported.
  ZarrArray(const cellfeed::zarr::Hierarchy& store, const std::string& name,
            cellfeed::zarr::ArrayMetadata array, const ArrayUse& use);

  const StoredNumber& number() const override { return number_; }
  std::string compression() const override { return source_.array().codecs.name(); }
  std::int64_t stored_bytes() const override;
  std::int64_t inflating_bytes() const override;
  void locate_chunks(std::span<const std::int64_t> chunks) const override;
  bool is_located(std::int64_t chunk) const override { return places_.has(chunk); }
  io::ByteRange stored_range(std::int64_t chunk) const override;
  // Files of this machine are read by whoever inflates what is in them.
  const io::ByteSource* reads() const override { return source_.is_local() ? nullptr : &source_; }

 private:
  void locate(std::int64_t chunk) const;
  void inflate_written(std::int64_t chunk, std::span<const std::byte> stored,
                       std::span<std::byte> out) const override;
  const std::byte* mapped(std::int64_t chunk) const override;

  const cellfeed::zarr::Hierarchy& store_;
  const cellfeed::zarr::ChunkSource source_;
  const StoredNumber number_;
  const MissingChunks missing_;
  const chunked::ChunkPlaces places_;
};

}  // namespace cellfeed::format::zarr
