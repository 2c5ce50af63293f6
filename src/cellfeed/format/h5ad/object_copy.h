// ObjectCopy: groups and datasets of an HDF5 file, read by hdf5::File, written to another as they
// are. Not thread-safe. Lifetime: both files outlive it.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::h5ad {

class ObjectCopy {
 public:
  // root: where in `from` paths begin; empty: at its root. to: of a file that is written, at
  // to_path for messages.
  ObjectCopy(const hdf5::File& from, std::string root, hid_t to, std::string to_path)
      : from_(from), root_(std::move(root)), to_(to), to_path_(std::move(to_path)) {}

  // Copies what lies at the path, and below, to the same path; nothing where nothing is there.
  // Members that are there already stay. Throws kCorruptData, kUnsupported and what writing throws.
  void copy(const std::string& path);
  // But not what lies there.
  void skip(std::string path) { skipped_.push_back(std::move(path)); }
  // "uns/a: a link to another file": what cannot be written again as it is.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  void copy_object(const hdf5::Object& object, const std::string& path, int depth);
  void copy_group(const hdf5::Group& group, const std::string& path, int depth);
  void copy_dataset(const hdf5::Dataset& dataset, const std::string& path);
  void copy_attributes(const hdf5::Object& object, hid_t to);
  void leave_out(const std::string& path, const std::string& why);

  const hdf5::File& from_;
  const std::string root_;
  const hid_t to_;
  const std::string to_path_;
  std::vector<std::string> skipped_;
  std::vector<std::string> left_out_;
  // By the address of an object, where it was written: it is linked to when it is met again.
  std::unordered_map<hdf5::Address, std::string> written_;
};

}  // namespace cellfeed::format::h5ad
