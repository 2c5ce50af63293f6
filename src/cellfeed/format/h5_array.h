// H5Array: an HDF5 dataset of numbers whose elements are decoded from the file's bytes. Chunks
// are located when first needed and remembered in a table without locks; what a source without
// map() holds in one piece is read in chunks all the same. Thread-safe. Lifetime: the H5File
// outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/chunked/chunk_places.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/hdf5/dataset_bytes.h"

namespace cellfeed::format {

class H5Array final : public StoredArray {
 public:
  // key tells arrays of one file apart in the cache. bytes: the file's, as they are to be read.
  // Throws kCorruptData, also where the dataset has another number of dimensions, or kUnsupported.
  H5Array(const H5File& file, const std::string& name, std::size_t rank, std::int32_t key,
          std::span<const std::byte> bytes, hdf5::Unwritten unwritten = hdf5::Unwritten::kFilled);

  // The records of a compound dataset of one dimension as rows of numbers of one type, of whose
  // bytes a whole number make a record. Throws as above.
  H5Array(const H5File& file, const std::string& name, const hdf5::Dataset& records,
          const hdf5::Datatype& number, std::int32_t key, std::span<const std::byte> bytes);

  const StoredNumber& number() const override { return number_; }
  std::string compression() const override { return stored_.filters().name(); }
  std::int64_t inflating_bytes() const override;
  void locate_chunks(std::span<const std::int64_t> chunks) const override;
  bool is_located(std::int64_t chunk) const override { return !places_ || places_->has(chunk); }
  const io::ByteSource* reads() const override { return reads_; }
  io::ByteRange stored_range(std::int64_t chunk) const override;

 private:
  H5Array(const H5File& file, const std::string& name, std::int32_t key,
          std::span<const std::byte> bytes, hdf5::DatasetBytes stored,
          const hdf5::Datatype* number);
  void inflate_written(std::int64_t chunk, std::span<const std::byte> stored,
                       std::span<std::byte> out) const override;
  const std::byte* mapped(std::int64_t chunk) const override;
  void read_in_one_piece();
  void set_place(std::int64_t chunk, const hdf5::ChunkPlace& place) const;
  void check_inside(std::uint64_t offset, std::uint64_t size) const;
  std::uint64_t n_file_bytes() const;

  const H5File& file_;
  const std::span<const std::byte> bytes_;
  const io::ByteSource* const reads_;  // null where bytes_ are the file's
  const hdf5::DatasetBytes stored_;
  const StoredNumber number_;
  std::vector<std::byte>
      owned_;  // of datasets without pages of their own: compact, or in other files
  std::int64_t piece_offset_ = 0;  // of the first, of those in one piece that are read in chunks
  // Their lengths hold the skipped filters in the upper half.
  std::optional<chunked::ChunkPlaces> places_;
};

}  // namespace cellfeed::format
