#include "cellfeed/format/h5ad/annotations_file.h"

#include "cellfeed/format/h5ad/hdf5_output.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/format/h5ad/object_copy.h"

namespace cellfeed::format::h5ad {

std::vector<std::string> write_annotations(const io::FileTarget& target, const hdf5::File& from,
                                           const CarriedGroups& groups) {
  Hdf5Output output(target, io::OnExisting::kReplace);
  std::vector<std::string> left_out;
  {
    const Hdf5Session session;
    Handle file = output.create_file();
    ObjectCopy copy(from, file.get(), target.path());
    for (const std::string& path : groups.skipped) copy.skip(path);
    for (const std::string& path : groups.paths) copy.copy(path);
    left_out = copy.left_out();
    check_write(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), target.path(), "writing the file");
    check_write(H5Fclose(file.release()), target.path(), "closing the file");
  }
  output.publish();
  return left_out;
}

}  // namespace cellfeed::format::h5ad
