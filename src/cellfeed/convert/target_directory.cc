#include "cellfeed/convert/target_directory.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

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

void refuse_source_inside(const std::string& dir, ExistingTarget existing, const Sources& sources) {
  if (const std::string source = sources.input_at(dir); !source.empty())
    throw_error(ErrorKind::kInvalidArgument, dir,
                "an input lies in the target directory{}; choose another target: '{}'",
                is_append(existing) ? "" : " and would be overwritten", source);
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

bool discards(ExistingTarget existing) {
  return existing == ExistingTarget::kOverwrite || existing == ExistingTarget::kAppend;
}

std::string refusal_of(bool is_finished, bool is_rewritten) {
  const std::string resume = argument("resume", "true"), overwrite = argument("overwrite", "true");
  if (!is_finished)
    return fmt::format("holds an unfinished conversion; continue it ({}) or start again ({})",
                       resume, overwrite);
  if (is_rewritten)
    return fmt::format(
        "holds finished shards that were being overwritten; continue that ({}) or start again ({})",
        resume, overwrite);
  return fmt::format("holds finished shards; choose another directory, or overwrite them ({})",
                     overwrite);
}

}  // namespace

void require_name_of_shards(const std::string& dir) {
  constexpr std::string_view kOtherFormats[] = {".h5ad", ".h5",  ".loom",    ".mtx",
                                                ".zarr", ".zip", ".parquet", ".gz"};
  const std::string_view name = std::string_view(dir).substr(0, dir.find_last_not_of('/') + 1);
  for (const std::string_view suffix : kOtherFormats)
    if (name.ends_with(suffix))
      throw_error(ErrorKind::kInvalidArgument, dir,
                  "a directory of shards is written, and '{}' is the suffix of another format: "
                  "choose another name",
                  suffix);
}

TargetDirectory::TargetDirectory(const std::string& dir, const std::optional<io::Directory>& held,
                                 ExistingTarget existing, const Sources& sources)
    : existing_(existing) {
  require_path(dir);
  refuse_source_inside(dir, existing, sources);
  if (!held && !is_append(existing)) {
    require_name_of_shards(dir);
    make_directory(dir);
  }
  directory_ = held ? *held : io::Directory(dir);
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
  if (is_append(existing) && !is_finished_)
    throw Error(ErrorKind::kNotFound, "holds no finished shards to append to", dir);
  if (is_finished_) look_at_finished();
  if (existing == ExistingTarget::kRefuse && (is_finished_ || is_unfinished_))
    throw Error(ErrorKind::kAlreadyExists, refusal_of(is_finished_, is_rewritten_), dir);
  // A folder that shows no such run may be one that somebody else is sending files to.
  if (is_unfinished_ || is_rewritten_ || is_appended_)
    unfinished_uploads_ = shard::remove_unfinished_uploads(directory_);
  if (is_finished_)
    shard::remove_leftovers_of_writers(
        directory_, discards(existing) ? shard::Unfinished::kDiscard : shard::Unfinished::kKeep);
  else
    io::remove_leftovers_in(directory_);
  if (existing == ExistingTarget::kOverwrite && is_unfinished_) remove_unfinished(directory_);
  if (existing == ExistingTarget::kOverwrite && is_finished_) is_rewritten_ = true;
  if (is_rewritten_) is_finished_ = false;
}

// What is being written beside them.
void TargetDirectory::look_at_finished() {
  const auto journal = shard::unfinished_beside_manifest(directory_);
  if (!journal) return;
  is_appended_ = journal->of == shard::JournalOf::kAppendedShards;
  is_rewritten_ = !is_appended_;
  if (is_rewritten_ && is_append(existing_))
    throw_error(ErrorKind::kAlreadyExists, directory_.path(),
                "its shards were being overwritten: finish that ({}, with the same inputs and "
                "options), then append",
                argument("resume", "true"));
}

shard::PartialManifest TargetDirectory::open_journal(const std::string& plan,
                                                     const shard::ResumeOptions& options) {
  if (existing_ == ExistingTarget::kResumeAppend && is_appended_)
    return shard::PartialManifest::resume(directory_, plan, options);
  if (is_append(existing_))
    return shard::PartialManifest::start(
        directory_, plan, std::max<shard::Generation>(1, shard::next_generation(directory_)),
        io::OnExisting::kReplace, shard::JournalOf::kAppendedShards);
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
