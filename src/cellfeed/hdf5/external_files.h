// ExternalFiles: the files that a file may lead to, by external links and external storage: those
// inside one folder. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::hdf5 {

class ExternalFiles {
 public:
  // Throws kNotFound or kInvalidArgument unless it is a directory.
  explicit ExternalFiles(const std::string& folder);

  // The file that `named` means in the file `from`: beside it, unless it is absolute. Opened once.
  // what: what leads there ("'X' is a link to"), for errors. Throws kUnsupported where it lies
  // outside of the folder once symbolic links are followed, kNotFound where it is not there.
  std::shared_ptr<const io::ByteSource> open(const std::string& from, const std::string& named,
                                             const std::string& what) const;
  std::vector<std::shared_ptr<const io::ByteSource>> opened() const;
  // Throws where one of those opened was written to since, as io::require_unchanged does.
  void require_unchanged() const;

 private:
  std::string find(const std::string& from, const std::string& named,
                   const std::string& what) const;

  std::string folder_;           // without symbolic links
  mutable ForkSafeMutex mutex_;  // guards what follows; not held while a file is opened
  mutable std::map<std::string, std::shared_ptr<const io::ByteSource>> opened_;
};

}  // namespace cellfeed::hdf5
