// Hdf5Output: an HDF5 file that appears whole or not at all. HDF5 writes to local disks alone, so
// for another target it writes to a local file, which is copied once it is whole.
// Not thread-safe. Lifetime: destroyed before publish(), it leaves nothing behind.
#pragma once

#include <optional>
#include <string>

#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::h5ad {

class Hdf5Output {
 public:
  // Throws kAlreadyExists now where the target exists and is not to be replaced.
  Hdf5Output(const io::FileTarget& target, io::OnExisting on_existing);

  // For messages: the target, and where it is made if that is elsewhere.
  std::string place() const;
  // The file that HDF5 writes, empty. REQUIRES: a Hdf5Session.
  Handle create_file() const;
  // REQUIRES: the file is closed.
  void publish();

 private:
  io::TempFile local_;
  std::optional<io::AtomicFile> remote_;
};

}  // namespace cellfeed::format::h5ad
