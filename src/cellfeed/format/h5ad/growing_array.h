// One-dimensional HDF5 datasets that grow at the end: numbers, integers of the least width,
// strings. Memory: one chunk each. Not thread-safe; each call takes the HDF5 session itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {

// An HDF5 file being written, and how its arrays are stored. Lifetime: outlives the arrays.
struct WriteTarget {
  hid_t file = H5I_INVALID_HID;
  std::string path;    // for messages
  int gzip_level = 0;  // 0: not compressed
  std::int64_t chunk_elements = 4096;
};

// Chunks are compressed by us, outside HDF5's lock, and written as they are.
class GrowingArray {
 public:
  GrowingArray(const WriteTarget& target, std::string name, DType dtype);
  // n elements of the dtype.
  void append(const void* values, std::int64_t n);
  // Writes the last, partial chunk. Nothing may be appended after it.
  void finish();
  std::int64_t length() const { return length_; }
  DType dtype() const { return dtype_; }
  // REQUIRES: finished.
  hid_t dataset() const { return dataset_.get(); }

 private:
  void create_dataset(std::int64_t chunk_elements);
  void write_chunk(std::int64_t chunk_elements);
  std::span<const std::byte> compress(std::span<const std::byte> chunk);

  const WriteTarget& target_;
  std::string name_;
  DType dtype_;
  std::int64_t element_bytes_;
  std::int64_t length_ = 0;        // elements appended
  std::int64_t chunk_begin_ = 0;   // of the chunk in buffer_
  std::vector<std::byte> buffer_;  // one chunk
  std::vector<std::byte> compressed_;
  Handle dataset_;  // made with the first chunk, so that a short array has a short one
};

// Signed integers, stored in the narrowest of the widths that holds them all; rewritten when a
// wider one comes.
class GrowingIntegers {
 public:
  GrowingIntegers(const WriteTarget& target, std::string name, DType narrowest);
  void append(std::span<const std::int64_t> values);
  void finish();
  std::int64_t length() const { return array_->length(); }
  // REQUIRES: finished.
  hid_t dataset() const { return array_->dataset(); }

 private:
  void widen(DType dtype);
  const WriteTarget& target_;
  std::string name_;
  std::unique_ptr<GrowingArray> array_;
};

// UTF-8 strings of any length. Never compressed: HDF5 keeps the texts in a heap that no filter
// reaches.
class GrowingStrings {
 public:
  GrowingStrings(const WriteTarget& target, std::string name);
  void append(std::string_view text);
  void finish();
  std::int64_t length() const { return length_; }

 private:
  void write_pending(std::int64_t chunk_elements);

  const WriteTarget& target_;
  std::string name_;
  std::int64_t length_ = 0;
  std::vector<char> characters_;     // texts not written yet, each with the zero that HDF5 wants
  std::vector<std::size_t> starts_;  // of those texts
  Handle dataset_;
};

}  // namespace cellfeed::format::h5ad
