#include "cellfeed/format/h5ad/annotations_file.h"

#include "cellfeed/format/h5ad/group_copy.h"
#include "cellfeed/format/h5ad/hdf5_output.h"
#include "cellfeed/format/h5ad/hdf5_write.h"

namespace cellfeed::format::h5ad {

std::vector<std::string> write_annotations(const io::FileTarget& target, const CarriedFrom& from,
                                           const CarriedGroups& groups) {
  Hdf5Output output(target, io::OnExisting::kReplace);
  std::vector<std::string> left_out;
  {
    const Hdf5Session session;
    Handle file = output.create_file();
    left_out = copy_groups(from, groups, file.get(), output.place());
    check_write(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), output.place(), "writing the file");
    check_write(H5Fclose(file.release()), output.place(), "closing the file");
  }
  output.publish();
  return left_out;
}

}  // namespace cellfeed::format::h5ad
