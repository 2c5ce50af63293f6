#include "cellfeed/collection/paths.h"

#include <dirent.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"

namespace cellfeed::collection {
namespace {

bool has_pattern(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

bool is_absent(int error_number) { return error_number == ENOENT || error_number == ENOTDIR; }

// glob() passes over folders that it cannot read, and orders names by the locale.
std::vector<std::string> names_like(const std::string& folder, const std::string& pattern) {
  const std::string place = folder.empty() ? "." : folder;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(place.c_str()), ::closedir);
  std::vector<std::string> names;
  if (!stream) {
    if (is_absent(errno)) return names;
    throw_errno(errno, place, "list this folder");
  }
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (::fnmatch(pattern.c_str(), entry->d_name, FNM_PERIOD) == 0)
      names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) throw_errno(errno, place, "list this folder");
  std::ranges::sort(names);
  return names;
}

bool is_there(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (is_absent(errno)) return false;
  throw_errno(errno, path, "look at this path");
}

// Adds what matches `pattern` under `folder`, which is empty or ends in a slash.
void find_matches(const std::string& folder, std::string_view pattern,
                  std::vector<std::string>& found) {
  const std::size_t end = pattern.find('/');
  const std::string part(pattern.substr(0, end));
  const std::string_view rest = end == std::string_view::npos ? "" : pattern.substr(end + 1);
  const auto go_on = [&](const std::string& path) {
    if (end != std::string_view::npos) return find_matches(path + "/", rest, found);
    if (is_there(path)) found.push_back(path);
  };
  if (!has_pattern(part)) return go_on(folder + part);
  for (const std::string& name : names_like(folder, part)) go_on(folder + name);
}

std::vector<std::string> matches(const std::string& path) {
  if (path.find("**") != std::string::npos)
    throw Error(ErrorKind::kUnsupported,
                "** is not a pattern here, as it would not go into folders of folders; give one * "
                "a level, or a list of the files",
                path);
  std::vector<std::string> found;
  const char* home = path.starts_with("~/") ? std::getenv("HOME") : nullptr;
  find_matches("", home ? home + path.substr(1) : path, found);
  if (found.empty())
    throw Error(ErrorKind::kNotFound, "no file matches this pattern; check the path", path);
  return found;
}

// A file that is there twice, as a list and a glob that overlap give it, would give each of its
// cells twice. What cannot be looked at is for the reader to name.
void check_each_once(const std::vector<std::string>& paths) {
  std::map<std::pair<dev_t, ino_t>, const std::string*> seen;
  for (const std::string& path : paths) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) continue;
    const auto [other, is_new] = seen.try_emplace({status.st_dev, status.st_ino}, &path);
    if (!is_new)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("given twice, so that each of its cells would count twice: give it "
                              "once (the other name: {})",
                              *other->second),
                  path);
  }
}

}  // namespace

std::vector<std::string> expand_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    require_path(path);
    struct stat status {};
    if (!has_pattern(path) || ::stat(path.c_str(), &status) == 0) {
      expanded.push_back(path);
      continue;
    }
    std::ranges::move(matches(path), std::back_inserter(expanded));
  }
  if (expanded.empty())
    throw_invalid("no input paths given: pass a file, a glob or a shard directory");
  check_each_once(expanded);
  return expanded;
}

}  // namespace cellfeed::collection
