// ZarrRows: the elements of any array of a zarr store, in row-major order, some rows of its first
// dimension at a time. Not thread-safe. Lifetime: the store outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/hdf5/box.h"
#include "cellfeed/zarr/chunk_reads.h"
#include "cellfeed/zarr/chunk_source.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::h5ad {

class ZarrRows {
 public:
  // REQUIRES: array is at `name`.
  ZarrRows(const cellfeed::zarr::Hierarchy& store, const std::string& name,
           cellfeed::zarr::ArrayMetadata array);

  const cellfeed::zarr::ArrayMetadata& array() const { return source_.array(); }
  // Of no dimension: 1.
  std::int64_t n_rows() const { return static_cast<std::int64_t>(shape_.front()); }
  std::int64_t row_elements() const;
  // Rows of whole chunks, that are best read together.
  std::int64_t rows_per_piece() const;
  // Bytes of the chunks of such a piece.
  std::int64_t piece_bytes() const;

  // Elements of rows [begin, begin + n) as they are stored. Throws kCorruptData, and kUnsupported
  // for records that were never written. REQUIRES: elements of one length.
  std::vector<std::byte> read(std::int64_t begin, std::int64_t n);
  // The same of texts of any length, which are not checked.
  std::vector<std::string> read_texts(std::int64_t begin, std::int64_t n);

 private:
  struct Part {
    std::int64_t chunk = 0;
    hdf5::Box box;                         // of the array
    std::vector<std::uint64_t> from;       // where it begins in the chunk
    std::optional<std::size_t> read = {};  // none where it was never written
  };
  std::vector<Part> parts_of(std::int64_t begin, std::int64_t n) const;
  // Brings what is stored of the parts into memory.
  cellfeed::zarr::ChunkReads fetch(std::vector<Part>& parts);
  std::vector<std::byte> decode(const Part& part, const cellfeed::zarr::ChunkReads& reads) const;
  // What was never written can be more than a store of this size ever held.
  void count(const Part& part, const cellfeed::zarr::ChunkPlace& place);

  const cellfeed::zarr::ChunkSource source_;
  const std::string name_;
  std::vector<std::uint64_t> shape_;        // of no dimension: one of one element
  std::vector<std::uint64_t> chunk_shape_;  // of the chunks that are read
  std::uint64_t stored_bytes_ = 0;
  std::uint64_t missing_elements_ = 0;
};

}  // namespace cellfeed::format::h5ad
