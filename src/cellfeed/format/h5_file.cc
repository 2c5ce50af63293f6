// An open HDF5 file, and whether it is still the one that was opened.
#include "cellfeed/format/h5_file.h"

#include <tuple>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format {

std::vector<std::string> H5File::all_paths() const {
  std::vector<std::string> paths{path_};
  if (external_)
    for (const auto& source : external_->opened()) paths.push_back(source->path());
  return paths;
}

void H5File::require_unchanged() const {
  if (row_source_) io::require_all_pages(*row_source_);
  io::require_unchanged(*source_);
  if (external_) external_->require_unchanged();
}

H5File::H5File(std::string path, bool reads_ahead, const std::string& allow_external)
    : path_(std::move(path)), allow_external_(allow_external) {
  if (!allow_external.empty())
    external_ = std::make_shared<const hdf5::ExternalFiles>(allow_external);
  // What is asked for ahead lies in this file.
  if (reads_ahead && !external_ && io::is_local(path_)) {
    std::tie(source_, row_source_) = io::map_local_file_twice(path_);
    ahead_.emplace(*row_source_);
  } else {
    source_ = io::open_file(path_, {.guarded = true});
  }
  hdf5_ = hdf5::File::open(source_, external_);
  require_unchanged();
}

}  // namespace cellfeed::format
