#include "cellfeed/format/h5ad/group_copy.h"

#include "cellfeed/format/h5ad/object_copy.h"
#include "cellfeed/format/h5ad/zarr_copy.h"

namespace cellfeed::format::h5ad {
namespace {

template <typename Copy>
std::vector<std::string> copy_all(Copy copy, const CarriedGroups& groups) {
  for (const std::string& path : groups.skipped) copy.skip(path);
  for (const std::string& path : groups.paths) copy.copy(path);
  return copy.left_out();
}

}  // namespace

std::vector<std::string> copy_groups(const CarriedFrom& from, const CarriedGroups& groups, hid_t to,
                                     const std::string& to_path) {
  if (const auto* file = std::get_if<const hdf5::File*>(&from))
    return copy_all(ObjectCopy(**file, groups.root, to, to_path), groups);
  return copy_all(
      ZarrCopy(*std::get<const cellfeed::zarr::Hierarchy*>(from), groups.root, to, to_path),
      groups);
}

}  // namespace cellfeed::format::h5ad
