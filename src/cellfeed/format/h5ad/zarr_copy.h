// ZarrCopy: groups and arrays of a zarr store, written to an HDF5 file as anndata has them there.
// Not thread-safe. Lifetime: both outlive it.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/format/h5ad/zarr_rows.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::h5ad {

class ZarrCopy {
 public:
  // to: of a file that is written, at to_path for messages.
  ZarrCopy(const cellfeed::zarr::Hierarchy& from, std::string root, hid_t to, std::string to_path)
      : from_(from), root_(std::move(root)), to_(to), to_path_(std::move(to_path)) {}

  // As those of ObjectCopy.
  void copy(const std::string& path);
  void skip(std::string path) { skipped_.push_back(std::move(path)); }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  void copy_node(const std::string& path, int depth);
  void copy_group(const cellfeed::zarr::Node& node, const std::string& path, int depth);
  void copy_array(const cellfeed::zarr::Node& node, const std::string& path);
  void write_piece(ZarrRows& rows, std::int64_t begin, std::int64_t n, hid_t dataset,
                   const std::string& path) const;
  void copy_attributes(const cellfeed::zarr::Node& node, hid_t to) const;
  void leave_out(const std::string& path, const std::string& why);

  // Where it lies in the source.
  std::string whole(const std::string& path) const {
    return root_.empty() ? path : root_ + "/" + path;
  }

  const cellfeed::zarr::Hierarchy& from_;
  const std::string root_;
  const hid_t to_;
  const std::string to_path_;
  std::vector<std::string> skipped_;
  std::vector<std::string> left_out_;
};

}  // namespace cellfeed::format::h5ad
