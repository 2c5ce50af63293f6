// Data Layout message: where the elements of a dataset lie. HDF5 File Format Specification 4.0,
// IV.A.2.i. Thread-safe: values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/file_bytes.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::hdf5 {

// In the object header itself.
struct CompactLayout {
  Bytes elements;
};

struct ContiguousLayout {
  Address address = kUndefinedAddress;  // undefined: never written
  // As stored; none in versions 1 and 2, where shape and datatype say it.
  std::optional<std::uint64_t> n_bytes;
};

// What "Chunk Indexing Type" says; version 3 and below have kBtree1 only.
enum class ChunkIndexKind : std::uint8_t {
  kBtree1 = 0,
  kSingleChunk = 1,
  kImplicit = 2,
  kFixedArray = 3,
  kExtensibleArray = 4,
  kBtree2 = 5,
};

// Of the index, as far as its kind has them; the index's own header repeats them.
struct ChunkIndexParameters {
  std::uint8_t page_bits = 0;  // fixed and extensible array
  std::uint8_t max_bits = 0;   // extensible array, as those below
  std::uint8_t index_block_elements = 0;
  std::uint8_t min_data_block_pointers = 0;
  std::uint8_t min_data_block_elements = 0;
  std::uint32_t node_bytes = 0;  // version 2 B-tree
};

struct ChunkedLayout {
  int version = 0;
  std::vector<std::uint64_t> chunk_shape;  // elements, without the dimension of an element's bytes
  std::uint64_t element_bytes = 0;
  std::uint64_t chunk_bytes = 0;  // shape and element multiplied, before filters
  ChunkIndexKind index = ChunkIndexKind::kBtree1;
  // Of the index or the single chunk; undefined: never written.
  Address address = kUndefinedAddress;
  ChunkIndexParameters parameters;
  // Bytes that a filtered chunk's size takes in the arrays and the version 2 B-tree.
  int filtered_size_bytes = 0;
  // Chunks that reach over the shape's edge are stored without filters.
  bool edge_chunks_are_unfiltered = false;
  // kSingleChunk with filters: stored bytes, and filters that were left out.
  struct FilteredSingleChunk {
    std::uint64_t n_bytes = 0;
    std::uint32_t filter_mask = 0;
  };
  std::optional<FilteredSingleChunk> single_chunk;
};

// Elements lie in other files' datasets.
struct VirtualLayout {};

using Layout = std::variant<CompactLayout, ContiguousLayout, ChunkedLayout, VirtualLayout>;

// Of versions 1 to 5. message: its bytes. Throws kCorruptData or kUnsupported.
Layout read_layout_message(Cursor message);

}  // namespace cellfeed::hdf5
