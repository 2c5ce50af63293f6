// StoredArray: a one-dimensional HDF5 dataset whose elements are decoded from the file's bytes.
// Chunks are located when first needed and remembered in a table without locks. Thread-safe.
// Lifetime: the H5File outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/h5ad/chunk_cache.h"
#include "cellfeed/format/h5ad/h5_file.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/hdf5/dataset_bytes.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::h5ad {

class StoredArray {
 public:
  // key tells arrays of one file apart in the cache. bytes: the file's, as they are to be read.
  // Throws kCorruptData or kUnsupported.
  StoredArray(const H5File& file, const std::string& name, std::int32_t key,
              std::span<const std::byte> bytes);
  StoredArray(const H5File& file, const std::string& name, std::int32_t key)
      : StoredArray(file, name, key, file.bytes()) {}

  const std::string& name() const { return name_; }
  const StoredNumber& number() const { return number_; }
  DType dtype() const { return number_.dtype; }
  std::int64_t element_bytes() const { return number_.bytes; }
  std::int64_t length() const { return length_; }
  std::int64_t chunk_elements() const { return chunk_elements_; }
  std::int64_t chunk_bytes() const { return chunk_elements_ * element_bytes(); }
  std::int64_t n_chunks() const { return n_chunks_; }
  std::string compression() const { return stored_.filters().name(); }
  bool is_compressed() const { return !stored_.filters().empty(); }
  // Memory that inflating one chunk takes, the chunk included.
  std::int64_t inflating_bytes() const {
    return is_compressed() ? static_cast<std::int64_t>(
                                 matrix::block_bytes(static_cast<std::size_t>(chunk_bytes()))) *
                                 stored_.filters().n_buffers()
                           : 0;
  }
  std::int32_t key() const { return key_; }

  // The whole array in the memory map, when it lies there in one piece; else null.
  const std::byte* contiguous() const { return contiguous_; }
  // Locates these chunks, together. REQUIRED before append_pieces or inflate of them, unless
  // contiguous() has them.
  void locate_chunks(std::span<const std::int64_t> chunks) const;
  // Where [begin, end) lies in the memory map. REQUIRES: located, not compressed.
  void append_pieces(std::int64_t begin, std::int64_t end, std::vector<RowPiece>& pieces) const;
  // One whole chunk, inflated. Elements past the length are what the file holds. REQUIRES: located,
  // out.size() == chunk_bytes().
  void inflate(std::int64_t chunk, std::span<std::byte> out) const;
  // Where the chunk lies in the file; no bytes where it was never written. REQUIRES: located.
  io::ByteRange stored_range(std::int64_t chunk) const;
  // All elements as 64-bit integers (those above 2^63 turn negative). Throws kCorruptData for other
  // dtypes.
  std::vector<std::int64_t> read_integers() const;

 private:
  // A chunk's place, as two words that are read and written whole.
  struct Place {
    std::uint64_t offset = 0;         // 0: not looked up yet; kNeverWritten; else in the file
    std::uint64_t size_and_mask = 0;  // stored bytes, and the skipped filters in the upper half
  };
  static constexpr std::uint64_t kNeverWritten = ~std::uint64_t{0};
  struct Free {
    void operator()(Place* places) const { std::free(places); }
  };

  void read_layout();
  void read_chunked_layout(const hdf5::ChunkedLayout& layout);
  void read_whole();
  std::uint64_t offset_of(std::int64_t chunk) const;
  std::uint64_t size_and_mask_of(std::int64_t chunk) const;
  void set_place(std::int64_t chunk, const hdf5::ChunkPlace& place) const;
  const std::byte* fill_bytes() const;
  std::span<const std::byte> file_bytes(std::uint64_t offset, std::uint64_t size) const;

  const H5File& file_;
  const std::span<const std::byte> bytes_;
  const std::string name_;
  const std::int32_t key_;
  const hdf5::DatasetBytes stored_;
  const StoredNumber number_;
  std::int64_t length_ = 0;
  std::int64_t chunk_elements_ = 0;
  std::int64_t n_chunks_ = 0;
  const std::byte* contiguous_ = nullptr;
  std::vector<std::byte> owned_;  // datasets that were never written
  // Of zeros that the system gives out when they are written to: memory grows with what is touched.
  std::unique_ptr<Place[], Free> places_;
  // What a chunk that was never written reads as; made when one is met.
  mutable exec::PerProcess<std::vector<std::byte>> fill_chunk_;
};

}  // namespace cellfeed::format::h5ad
