// KeptFolder: what is kept on a local disk until a series is written: in a folder of the series'
// directory where that is on one, else in the system's folder for temporary files (TMPDIR), under a
// name that the next run finds again. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/own_folder.h"

namespace cellfeed::series {

inline constexpr const char* kPlanName = "plan.txt";
// The file with the rows of one part of the inputs.
std::string part_name(std::size_t part);

class KeptFolder {
 public:
  // name: in the directory. what: it is of, wherever it lies. What an earlier run kept is there.
  // Throws kIo, and kAlreadyExists where another process has it, or it is none of ours.
  KeptFolder(const io::Directory& directory, const std::string& name, const std::string& what);

  const io::Directory& directory() const { return folder_->directory(); }
  // The folder of that name in the series' directory, which shows that it is being written.
  const io::Directory& shown() const { return shown_; }
  // But for the file of this name.
  void empty(const std::string& but = "") const { folder_->empty(but); }
  // On the local disk.
  void remove_kept();
  // With the folder that shows it.
  void remove();

 private:
  std::optional<io::OwnFolder> folder_;
  io::Directory shown_;
  std::unique_ptr<io::DirectoryLock> lock_;  // of one that is not in the directory
};

}  // namespace cellfeed::series
