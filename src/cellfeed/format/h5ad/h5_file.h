// An open HDF5 file: its metadata through HDF5, its bytes through a memory map.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/format/h5ad/user_block.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::format::h5ad {

class H5File {
 public:
  // Throws kNotFound, kIo or kCorruptData; says so when the file is empty, truncated, a Git LFS
  // pointer or not HDF5.
  // reads_ahead: rows that are not in memory are asked for at once.
  explicit H5File(std::string path, bool reads_ahead = true);

  const std::string& path() const { return path_; }
  hid_t id() const { return id_.get(); }
  std::span<const std::byte> bytes() const { return source_->map(); }
  std::int64_t size() const { return source_->size(); }
  // The same bytes, for rows read here and there: page faults bring in a page and nothing around
  // it.
  std::span<const std::byte> row_bytes() const {
    return (row_source_ ? row_source_ : source_)->map();
  }
  // For what will be read of row_bytes(). Null unless it reads ahead.
  const io::ReadAhead* ahead() const { return ahead_ ? &*ahead_ : nullptr; }
  void release_pages() const {
    source_->release_pages();
    if (row_source_) row_source_->release_pages();
  }
  std::int64_t change_time_ns() const { return change_time_ns_; }
  // Where the HDF5 part of the file starts: addresses in it count from there.
  std::uint64_t user_block_bytes() const { return user_block_bytes_; }
  // What to add to the addresses HDF5 gives.
  const AddressBases& bases() const { return bases_; }

 private:
  std::string path_;
  std::unique_ptr<io::ByteSource> source_;
  std::unique_ptr<io::ByteSource> row_source_;  // null unless it reads ahead
  std::optional<io::ReadAhead> ahead_;
  std::int64_t change_time_ns_ = 0;
  std::uint64_t user_block_bytes_ = 0;
  AddressBases bases_;
  Handle id_;
};

}  // namespace cellfeed::format::h5ad
