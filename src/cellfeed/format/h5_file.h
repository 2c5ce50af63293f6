// An open HDF5 file: what it holds through hdf5::File, its bytes through a memory map where its
// source has one.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::format {

class H5File {
 public:
  // Throws kNotFound, kIo (too many open files too) or kCorruptData; says so when the file is
  // empty, truncated, a Git LFS pointer or not HDF5. reads_ahead: rows that are not in memory are
  // asked for at once. allow_external: a folder whose files this one may lead to; empty: none.
  explicit H5File(std::string path, bool reads_ahead = true,
                  const std::string& allow_external = "");

  const std::string& path() const { return path_; }
  // As it was given.
  const std::string& allow_external() const { return allow_external_; }
  // Its own path, and those of the files that it has led to so far.
  std::vector<std::string> all_paths() const;
  // Throws kCorruptData where the file, or one that it leads to, was written to since it was
  // opened: what was read of it then and what is read now do not belong together. Throws kIo where
  // bytes of it could not be read, and were zeros instead. So it is asked before something is read
  // and again before that is used.
  void require_unchanged() const;
  const hdf5::File& hdf5() const { return *hdf5_; }
  std::span<const std::byte> bytes() const { return source_->map(); }
  std::int64_t size() const { return source_->size(); }
  // The same bytes, for rows read here and there: page faults bring in a page and nothing around
  // it.
  std::span<const std::byte> row_bytes() const { return row_source().map(); }
  const io::ByteSource& row_source() const { return row_source_ ? *row_source_ : *source_; }
  // For what will be read of row_bytes(). Null unless it reads ahead.
  const io::ReadAhead* ahead() const { return ahead_ ? &*ahead_ : nullptr; }
  void release_pages() const {
    source_->release_pages();
    if (row_source_) row_source_->release_pages();
  }

 private:
  std::string path_;
  std::string allow_external_;
  std::shared_ptr<const hdf5::ExternalFiles> external_;
  std::shared_ptr<const io::ByteSource> source_;
  std::unique_ptr<io::ByteSource> row_source_;  // null unless it reads ahead
  std::optional<io::ReadAhead> ahead_;
  std::optional<hdf5::File> hdf5_;
};

}  // namespace cellfeed::format
