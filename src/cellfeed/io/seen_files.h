// SeenFiles: what files below a folder were when they were looked at, so that who reads some of
// them later knows whether it was these. Thread-safe, fork-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::io {

// Files whose times are as old as this cannot change and keep them: clocks of file systems tick in
// milliseconds, those of some in seconds.
inline constexpr std::int64_t kSettledNs = 2'000'000'000;

// Of the files below a folder those of these names, and all that lie below these folders in it.
struct FilesBelow {
  std::vector<std::string> names;
  std::vector<std::string> folders;

  bool has(std::string_view name) const;
};

class SeenFiles {
 public:
  // Looks at them, once for each file; of a network many at a time. Clocks of local file systems
  // tick: what was written to a moment ago may be again without a trace, so it waits until that
  // moment is past (2 s at most) and looks again. Throws kIo, kUnsupported where the folder cannot
  // be listed, and kCorruptData where files are written to all the time.
  static std::shared_ptr<const SeenFiles> look(std::string folder, FilesBelow which);

  // Of the names of all files, and of what tells each from those that had or will have its name:
  // size, times and number, or ETag. 16 bytes of memory for each.
  std::uint64_t mark() const { return mark_; }
  std::int64_t n_files() const { return std::ssize(files_); }
  // What is there under a name now, be it nothing. False where it is another file than was seen,
  // which changed() says from then on. Who asks before and after he reads has read what was seen.
  bool compare(std::string_view name, const PathStatus& now) const;
  // The first file found to be another. Empty: none.
  std::string changed() const;

 private:
  struct File {
    std::uint64_t name = 0;   // the hash of it
    std::uint64_t state = 0;  // likewise
    bool operator<(const File& other) const {
      return std::pair(name, state) < std::pair(other.name, other.state);
    }
  };

  SeenFiles(std::string folder, FilesBelow which);
  std::uint64_t state_of(const PathStatus& status) const;
  // The last times at which files were written or changed.
  struct Newest {
    std::int64_t any_ns = 0;
    std::int64_t past_ns = 0;  // of those that are not in the future
  };
  Newest look_at_all();

  const std::string folder_;
  const FilesBelow which_;
  const bool is_local_;
  std::vector<File> files_;  // ascending
  std::uint64_t mark_ = 0;

  mutable ForkSafeMutex mutex_;  // guards what follows
  mutable std::string changed_;
};

}  // namespace cellfeed::io
