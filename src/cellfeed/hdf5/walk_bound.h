// WalkBound: what following the addresses of one structure may cost, so that a damaged file ends in
// an error and not in a cycle. Not thread-safe. Lifetime: the FileBytes outlives it.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

// A part is visited once, and all together have no more bytes than the file.
class WalkBound {
 public:
  // what: the structure that is walked, as errors name it.
  WalkBound(const FileBytes& file, std::string_view what) : file_(file), what_(what) {}

  // Throws kCorruptData where the address was visited before.
  void visit(Address address, std::uint64_t n_bytes) {
    if (!visited_.insert(address).second)
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "damaged HDF5 file: the parts of a {} lead back to one of them, at offset {}",
                  what_, address + file_.base_address());
    spend(n_bytes);
  }
  void spend(std::uint64_t n_bytes) {
    if (n_bytes > file_.size() - spent_)
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "damaged HDF5 file: a {} is larger than the file, whose size is {}", what_,
                  file_.size());
    spent_ += n_bytes;
  }

 private:
  const FileBytes& file_;
  std::string_view what_;
  std::uint64_t spent_ = 0;
  std::unordered_set<Address> visited_;
};

}  // namespace cellfeed::hdf5
