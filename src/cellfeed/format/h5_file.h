// An open HDF5 file: what it holds through hdf5::File, or as any StoredTree; its bytes through a
// memory map where its source has one.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/format/stored_tree.h"
#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::format {

class H5File final : public StoredTree {
 public:
  // Throws kNotFound, kIo (too many open files too) or kCorruptData; says so when the file is
  // empty, truncated, a Git LFS pointer or not HDF5. reads_ahead: rows that are not in memory are
  // asked for at once.
  explicit H5File(std::string path, bool reads_ahead = true);

  const std::string& path() const override { return path_; }
  std::string_view kind_name() const override { return "HDF5 file"; }
  std::int64_t size() const override { return source_->size(); }
  void require_unchanged() const override;
  const hdf5::File& hdf5() const { return *hdf5_; }
  std::span<const std::byte> bytes() const { return source_->map(); }
  // The same bytes, for rows read here and there: page faults bring in a page and nothing around
  // it.
  std::span<const std::byte> row_bytes() const override { return row_source().map(); }
  io::ReadCosts row_costs() const override { return row_source().costs(); }
  const io::ByteSource& row_source() const { return row_source_ ? *row_source_ : *source_; }
  // Null unless it reads ahead.
  const io::ReadAhead* ahead() const override { return ahead_ ? &*ahead_ : nullptr; }
  void release_pages() const override {
    source_->release_pages();
    if (row_source_) row_source_->release_pages();
  }

  std::unique_ptr<StoredNode> find(const std::string& path) const override;
  std::unique_ptr<StoredArray> open_array(const std::string& path,
                                          const ArrayUse& use) const override;
  std::optional<StoredField> find_field(const std::string& path) const override;
  std::unique_ptr<StoredArray> open_field(const std::string& path) const override;
  std::vector<std::string> files_of(std::span<const std::string> arrays) const override;
  // As content_fingerprint.
  std::uint64_t fingerprint(std::span<const std::string> groups,
                            const std::string& choice) const override;

 private:
  std::string path_;
  std::shared_ptr<const io::ByteSource> source_;
  std::unique_ptr<io::ByteSource> row_source_;  // null unless it reads ahead
  std::optional<io::ReadAhead> ahead_;
  std::optional<hdf5::File> hdf5_;
};

// Whether it is a file with an HDF5 signature. Throws what reading throws.
bool is_hdf5(const std::string& path);

}  // namespace cellfeed::format
