#include "cellfeed/series/build_directory.h"

#include <span>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/io/temp_file.h"
#include "cellfeed/series/metadata.h"

namespace cellfeed::series {
namespace {

constexpr const char* kPartsFolder = ".building";
constexpr std::int64_t kMaxPlanBytes = std::int64_t{1} << 30;

// Its first line that is another.
std::string difference(const std::string& before, const std::string& now) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < before.size() && i < now.size() && before[i] == now[i]; ++i)
    if (before[i] == '\n') begin = i + 1;
  return fmt::format("'{}' was '{}'", now.substr(begin, now.find('\n', begin) - begin),
                     before.substr(begin, before.find('\n', begin) - begin));
}

bool is_of_series(const std::string& name) {
  return is_series_file(name) || name.starts_with(".") || io::is_temp_name(name);
}

}  // namespace

std::uint64_t plan_fingerprint(const std::string& plan) {
  return format::shard::checksum_bytes(std::as_bytes(std::span(plan)));
}

BuildDirectory::BuildDirectory(const std::string& dir, const std::string& plan, bool resume) {
  require_path(dir);
  if (io::exists(dir) && !io::is_directory(dir))
    throw Error(ErrorKind::kAlreadyExists, "is a file, not a directory to write a series to", dir);
  io::make_directories(dir);
  directory_ = io::Directory(dir);
  for (const std::string& name : directory_.names())
    if (!is_of_series(name))
      throw_error(ErrorKind::kAlreadyExists, dir,
                  "holds files that are not of a series, and none is overwritten; choose an empty "
                  "or a new directory: '{}'",
                  name);
  lock_ = std::make_unique<io::DirectoryLock>(directory_);
  const std::string folder = directory_.path_of(kPartsFolder);
  const bool is_begun = io::exists(folder + "/" + kPlanName);
  is_finished_ = io::exists(directory_.path_of(kMetadataName));
  for (const std::string& name : directory_.names())
    if (!is_finished_ && !is_begun && is_series_file(name))
      throw_error(ErrorKind::kAlreadyExists, dir,
                  "holds '{}', which no build there has begun; choose an empty or a new directory",
                  name);
  if (is_finished_ && !resume)
    throw Error(ErrorKind::kAlreadyExists,
                "holds a finished series; choose another directory, or remove this one", dir);
  if (is_finished_ && read_metadata(dir).built != plan_fingerprint(plan))
    throw Error(ErrorKind::kInvalidArgument,
                "holds a finished series of other inputs or options; choose another directory",
                dir);
  if (is_begun && !resume)
    throw Error(ErrorKind::kAlreadyExists,
                "holds an unfinished build; continue it (resume), or remove the directory", dir);
  const bool is_left = io::exists(folder);  // by a build that was stopped
  if (is_finished_ && !is_left) return;
  parts_.emplace(directory_, kPartsFolder,
                 fmt::format("{}\n{:016x}", io::canonical(dir), plan_fingerprint(plan)));
  // Where none was stopped, somebody else may be sending files to the folder.
  if (is_left) unfinished_uploads_ = remove_unfinished_uploads(directory_);
  if (!is_begun) {
    // What a build that was killed at its very end left goes with the parts.
    if (!is_finished_) begin(plan);
    return;
  }
  const std::string before = io::read_small_file(parts_->shown().path_of(kPlanName), kMaxPlanBytes);
  if (before != plan)
    throw_error(ErrorKind::kInvalidArgument, dir,
                "the build that began here had other inputs or options, so that it cannot be "
                "continued; remove the directory, or build as then: {}",
                difference(before, plan));
  io::remove_leftovers_in(directory_);
  io::remove_leftovers_in(parts_->shown());
}

void BuildDirectory::begin(const std::string& plan) {
  io::remove_leftovers_in(directory_);
  parts_->empty(kPlanName);
  io::write_small_file({parts_->shown(), kPlanName}, plan);
}

void BuildDirectory::remove_parts() {
  if (!parts_) return;
  // The plan last: without it, what is left is never taken for a build under way.
  parts_->empty(kPlanName);
  parts_->shown().remove(kPlanName);
  parts_->remove();
  parts_.reset();
}

}  // namespace cellfeed::series
