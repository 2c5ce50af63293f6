#include "cellfeed/convert/target_directory.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
using format::shard::DirectoryState;

// "shard_000000.cells" and its siblings.
bool is_shard_file(const fs::path& name) {
  const std::string stem = name.stem().string(), extension = name.extension().string();
  constexpr std::string_view kPrefix = "shard_";
  return stem.starts_with(kPrefix) && stem.size() >= kPrefix.size() + 6 &&
         stem.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos &&
         (extension == ".cells" || extension == ".npy" || extension == ".parquet" ||
          extension == ".arrow");
}

bool is_ours(const std::string& name) {
  return name == format::shard::kGenesName || name == format::shard::kPartialManifestName ||
         io::is_temp_name(name) || is_shard_file(name);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw_errno(error.value(), path.string(), "remove a file that is to be overwritten");
}

// The manifest goes first, so that a directory with missing shards is never taken for a finished
// one.
void remove_shards(const std::string& dir) {
  remove_file(fs::path(dir) / format::shard::kManifestName);
  io::fsync_directory(dir);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir))
    if (is_ours(entry.path().filename().string())) files.push_back(entry.path());
  for (const fs::path& file : files) remove_file(file);
}

// What a killed writer left: temporary files, and the journal when the manifest was already there.
// The lock is held.
void remove_leftovers(const std::string& dir, bool is_finished) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (io::is_temp_name(name) || (is_finished && name == format::shard::kPartialManifestName))
      files.push_back(entry.path());
  }
  for (const fs::path& file : files) remove_file(file);
}

void refuse_source_inside(const std::string& dir, const Sources& sources) {
  const fs::path target = fs::weakly_canonical(dir);
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const fs::path source = fs::weakly_canonical(sources.store(s).info().path);
    if (std::mismatch(target.begin(), target.end(), source.begin(), source.end()).first ==
        target.end())
      throw_error(ErrorKind::kInvalidArgument, dir,
                  "an input lies in the target directory and would be overwritten; choose another "
                  "target: '{}'",
                  source.string());
  }
}

std::string first_foreign_name(const std::string& dir, const std::string& lock_path) {
  for (const auto& entry : fs::directory_iterator(dir))
    if (entry.path() != fs::path(lock_path)) return entry.path().filename().string();
  return {};
}

void make_directory(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) throw_errno(error.value(), dir, "make the target directory");
  if (!fs::is_directory(dir))
    throw Error(ErrorKind::kAlreadyExists, "is a file, not a directory to write shards to", dir);
}

}  // namespace

TargetDirectory::TargetDirectory(const std::string& dir, ExistingTarget existing,
                                 const Sources& sources)
    : dir_(dir), existing_(existing) {
  refuse_source_inside(dir, sources);
  make_directory(dir);
  // Before the lock, which is a file itself.
  if (format::shard::shard_directory_state(dir) == DirectoryState::kOther) {
    const std::string name = first_foreign_name(dir, dir + "/.lock");
    if (!name.empty())
      throw_error(ErrorKind::kAlreadyExists, dir,
                  "holds files that are not shards, and none is overwritten; choose an empty or a "
                  "new directory: '{}'",
                  name);
  }
  lock_ = std::make_unique<io::DirectoryLock>(dir);
  const DirectoryState state = format::shard::shard_directory_state(dir);
  is_finished_ = state == DirectoryState::kFinished;
  is_unfinished_ = state == DirectoryState::kUnfinished;
  if (existing != ExistingTarget::kRefuse || !is_finished_) remove_leftovers(dir, is_finished_);
  if (!is_finished_ && !is_unfinished_) return;
  if (existing == ExistingTarget::kOverwrite) {
    remove_shards(dir);
    is_finished_ = is_unfinished_ = false;
  } else if (existing == ExistingTarget::kRefuse) {
    throw Error(
        ErrorKind::kAlreadyExists,
        is_finished_
            ? "holds finished shards; choose another directory, or overwrite them (--overwrite)"
            : "holds an unfinished conversion; continue it (--resume) or start again "
              "(--overwrite)",
        dir);
  }
}

format::shard::PartialManifest TargetDirectory::open_journal(const std::string& plan) {
  if (is_unfinished_ && existing_ == ExistingTarget::kResume)
    return format::shard::PartialManifest::resume(dir_, plan);
  return format::shard::PartialManifest::start(dir_, plan);
}

}  // namespace cellfeed::convert
