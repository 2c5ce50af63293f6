#include "cellfeed/convert/target_directory.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cellfeed/base/path_text.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
namespace shard = format::shard;
using shard::DirectoryState;

// What an unfinished conversion left, but for its journal: that goes with the first rename of the
// next one, so that a directory of ours is never without manifest and journal.
void remove_unfinished(const io::Directory& directory) {
  for (const std::string& name : directory.names())
    if (shard::generation_of(name)) directory.remove(name);
  io::remove_leftovers_in(directory);
  directory.sync();
}

void refuse_source_inside(const std::string& dir, const Sources& sources) {
  const fs::path target = io::canonical(dir);
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const fs::path source = io::canonical(sources.store(s).info().path);
    if (std::mismatch(target.begin(), target.end(), source.begin(), source.end()).first ==
        target.end())
      throw_error(ErrorKind::kInvalidArgument, dir,
                  "an input lies in the target directory and would be overwritten; choose another "
                  "target: '{}'",
                  source.string());
  }
}

std::string first_foreign_name(const io::Directory& directory) {
  for (const std::string& name : directory.names())
    if (!name.starts_with(".")) return name;
  return {};
}

void make_directory(const std::string& dir) {
  const io::PathStatus status = io::status_of(dir);
  if (status.is_there() && !status.is_directory())
    throw Error(ErrorKind::kAlreadyExists, "is a file, not a directory to write shards to", dir);
  io::make_directories(dir);
}

std::string refusal_of(bool is_finished, bool is_rewritten) {
  if (!is_finished)
    return "holds an unfinished conversion; continue it (--resume) or start again (--overwrite)";
  if (is_rewritten)
    return "holds finished shards that were being overwritten; continue that (--resume) or start "
           "again (--overwrite)";
  return "holds finished shards; choose another directory, or overwrite them (--overwrite)";
}

}  // namespace

TargetDirectory::TargetDirectory(const std::string& dir, ExistingTarget existing,
                                 const Sources& sources)
    : existing_(existing) {
  require_path(dir);
  refuse_source_inside(dir, sources);
  make_directory(dir);
  directory_ = io::Directory(dir);
  // Before the lock, which is a file itself.
  if (shard::shard_directory_state(dir) == DirectoryState::kOther) {
    const std::string name = first_foreign_name(directory_);
    if (!name.empty())
      throw_error(ErrorKind::kAlreadyExists, dir,
                  "holds files that are not shards, and none is overwritten; choose an empty or a "
                  "new directory: '{}'",
                  name);
  }
  lock_ = std::make_unique<io::DirectoryLock>(directory_);
  const DirectoryState state = shard::shard_directory_state(dir);
  is_finished_ = state == DirectoryState::kFinished;
  is_unfinished_ = state == DirectoryState::kUnfinished;
  is_rewritten_ = is_finished_ && shard::is_being_rewritten(directory_);
  if (existing == ExistingTarget::kRefuse && (is_finished_ || is_unfinished_))
    throw Error(ErrorKind::kAlreadyExists, refusal_of(is_finished_, is_rewritten_), dir);
  if (is_finished_)
    shard::remove_leftovers_of_writers(directory_, existing == ExistingTarget::kOverwrite
                                                       ? shard::Rewriting::kDiscard
                                                       : shard::Rewriting::kKeep);
  else
    io::remove_leftovers_in(directory_);
  if (existing == ExistingTarget::kOverwrite && is_unfinished_) remove_unfinished(directory_);
  if (existing == ExistingTarget::kOverwrite && is_finished_) is_rewritten_ = true;
  if (is_rewritten_) is_finished_ = false;
}

shard::PartialManifest TargetDirectory::open_journal(const std::string& plan,
                                                     const shard::ResumeOptions& options) {
  const bool is_begun = is_unfinished_ || is_rewritten_;
  if (existing_ == ExistingTarget::kResume && is_begun)
    return shard::PartialManifest::resume(directory_, plan, options);
  if (existing_ != ExistingTarget::kOverwrite)
    return shard::PartialManifest::start(directory_, plan);
  // A manifest without files still has its generation.
  const shard::Generation generation =
      is_rewritten_ ? std::max<shard::Generation>(1, shard::next_generation(directory_)) : 0;
  return shard::PartialManifest::start(directory_, plan, generation, io::OnExisting::kReplace);
}

}  // namespace cellfeed::convert
