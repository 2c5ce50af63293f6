// KeptFolder: a folder of a local disk for what is kept until a series is written: in its directory
// where that is of a local disk, else in the system's folder for temporary files (TMPDIR), under a
// name that the next run finds again. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::series {

class KeptFolder {
 public:
  // name: in the directory. what: it is of, wherever it lies. What an earlier run kept is there.
  // Throws kIo, and kAlreadyExists where another process has it.
  KeptFolder(const io::Directory& directory, const std::string& name, const std::string& what);

  const io::Directory& directory() const { return folder_; }
  // But for the file of this name.
  void empty(const std::string& but = "") const;
  // With the folder itself.
  void remove();

 private:
  io::Directory folder_;
  std::unique_ptr<io::DirectoryLock> lock_;  // of one that is not in the directory
};

}  // namespace cellfeed::series
