// The directory a conversion writes to: made, checked and locked before anything is written.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::convert {

enum class ExistingTarget {
  kRefuse,
  kResume,        // continue an unfinished conversion; start when there is none
  kOverwrite,     // replace shards, once the new ones are whole; other files are never touched
  kAppend,        // new shards behind those that are there; what a stopped append left is removed
  kResumeAppend,  // the same; continue an append that was stopped
};
constexpr bool is_append(ExistingTarget existing) {
  return existing == ExistingTarget::kAppend || existing == ExistingTarget::kResumeAppend;
}

// Throws kInvalidArgument for a name that another format's files have.
void require_name_of_shards(const std::string& dir);

// Not thread-safe. Lifetime: the lock is held until it is destroyed.
class TargetDirectory {
 public:
  // held: the directory, where it is held open; else it is opened, and made where it is missing.
  // Throws kAlreadyExists (a finished or unfinished
  // conversion, other files, another writer), kNotFound (no shards to append to), kInvalidArgument
  // (a source lies in a directory to be overwritten or appended to), kIo.
  TargetDirectory(const std::string& dir, const std::optional<io::Directory>& held,
                  ExistingTarget existing, const Sources& sources);

  const io::Directory& directory() const { return directory_; }
  // True when a finished conversion lies there and kResume was asked for: nothing is left to write.
  bool is_finished() const { return is_finished_; }
  // True when finished shards stay in their place until the new ones are whole.
  bool is_rewritten() const { return is_rewritten_; }
  // Of a run that was stopped here.
  const io::UnfinishedUploads& unfinished_uploads() const { return unfinished_uploads_; }
  // REQUIRES: !is_finished(), unless shards are appended.
  format::shard::PartialManifest open_journal(const std::string& plan,
                                              const format::shard::ResumeOptions& options);

 private:
  io::Directory directory_;
  ExistingTarget existing_;
  void look_at_finished();

  bool is_finished_ = false;
  bool is_unfinished_ = false;
  bool is_rewritten_ = false;
  bool is_appended_ = false;  // by a run that was stopped
  io::UnfinishedUploads unfinished_uploads_;
  std::unique_ptr<io::DirectoryLock> lock_;
};

}  // namespace cellfeed::convert
