// BuildDirectory: the directory that a build writes to: made, checked and locked before anything is
// written; and what an interrupted build left in it. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/series/kept_folder.h"

namespace cellfeed::series {

// What metadata remember of the plan.
std::uint64_t plan_fingerprint(const std::string& plan);

// Calls fn, which removes what is no longer needed: rows are written, so that what it throws is a
// warning. verb: that removes the rest when it is run again.
template <typename Fn>
void remove_rest(std::vector<std::string>& warnings, std::string_view verb, const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    warnings.push_back(fmt::format(
        "the rows are written, but what is no longer needed could not be removed: {}; the next {} "
        "removes it",
        error.what(), verb));
  }
}

class BuildDirectory {
 public:
  // plan: all that the bytes to be written depend on. Throws kAlreadyExists (a finished series, an
  // unfinished one without resume, other files, another writer), kInvalidArgument (the plan is
  // another than that which began or was finished), kIo.
  BuildDirectory(const std::string& dir, const std::string& plan, bool resume);

  const io::Directory& directory() const { return directory_; }
  // A finished series of this plan lies there, and resume was asked for.
  bool is_finished() const { return is_finished_; }
  // Of builds that were stopped here.
  const io::UnfinishedUploads& unfinished_uploads() const { return unfinished_uploads_; }
  // For what is kept until the build is finished. REQUIRES: !is_finished().
  const io::Directory& parts() const { return parts_->directory(); }
  // Removes what was kept for a build that resumes.
  void remove_parts();

 private:
  void begin(const std::string& plan);

  io::Directory directory_;
  std::unique_ptr<io::DirectoryLock> lock_;
  std::optional<KeptFolder> parts_;  // none where nothing is left to do
  bool is_finished_ = false;
  io::UnfinishedUploads unfinished_uploads_;
};

}  // namespace cellfeed::series
