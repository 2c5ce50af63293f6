// DatasetBytes: the elements of a dataset as they are stored, whatever its layout. Thread-safe:
// immutable. It keeps the file open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/hdf5/box.h"
#include "cellfeed/hdf5/chunk_index.h"
#include "cellfeed/hdf5/file.h"
#include "cellfeed/hdf5/filter_pipeline.h"

namespace cellfeed::hdf5 {

// What elements are that no writer ever wrote: the fill value, or damage, where a sound writer
// leaves none out.
enum class Unwritten { kFilled, kDamage };

class DatasetBytes {
 public:
  // Reads nothing yet. Throws kCorruptData where the parts do not fit together, kUnsupported for
  // filters that are not readable here.
  explicit DatasetBytes(const Dataset& dataset, Unwritten unwritten = Unwritten::kFilled);

  const Dataset& dataset() const { return dataset_; }
  const std::vector<std::uint64_t>& shape() const { return dataset_.shape(); }
  std::uint64_t element_bytes() const { return dataset_.datatype().size; }
  std::uint64_t n_bytes() const { return n_bytes_; }
  // Null where it is not chunked.
  const ChunkIndex* chunk_index() const { return index_.get(); }
  const FilterPipeline& filters() const { return filters_; }
  // Throws kCorruptData where elements that were never written are damage.
  void accept_unwritten() const;

  // Fills out with a box, row-major. Throws kCorruptData. REQUIRES: the box lies inside the shape,
  // out.size() is that of its elements.
  void read(const Box& box, std::span<std::byte> out) const;
  // All of it. Throws kUnsupported where it has more than max_bytes, before there is memory for it.
  std::vector<std::byte> read_all(std::uint64_t max_bytes) const;

 private:
  void check_inside(const Box& box, std::span<std::byte> out) const;
  void fill(const BoxEnd<std::byte>& to, std::span<const std::uint64_t> shape) const;
  void read_in_place(std::span<const std::byte> elements, const Box& box,
                     std::span<std::byte> out) const;
  void read_contiguous(const Box& box, std::span<std::byte> out) const;
  // Calls visit(offset in the dataset's bytes, part of out) for the pieces of a box whose bytes
  // stand one after another.
  template <typename Visit>
  void for_each_piece(const Box& box, std::span<std::byte> out, const Visit& visit) const;
  void read_chunks(std::span<const std::uint64_t> numbers, const Box& box,
                   std::span<std::byte> out) const;
  void place_chunk(std::uint64_t number, const ChunkPlace& place, std::span<const std::byte> stored,
                   const Box& box, std::span<std::byte> out) const;

  const Dataset dataset_;
  const Unwritten unwritten_;
  const FileBytes& file_;
  const std::uint64_t n_bytes_;
  FilterPipeline filters_;
  std::unique_ptr<ChunkIndex> index_;
};

}  // namespace cellfeed::hdf5
