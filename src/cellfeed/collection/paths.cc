#include "cellfeed/collection/paths.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/look_anew.h"

namespace cellfeed::collection {
namespace {

bool has_pattern(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

// In the order of bytes; glob() passes over folders that it cannot read, and orders by the locale.
std::vector<std::string> names_like(const std::string& folder, const std::string& pattern) {
  const std::string place = folder.empty() ? "." : folder;
  if (!io::is_directory(place)) return {};
  std::vector<std::string> names = io::Directory(place).names();
  std::erase_if(names, [&](const std::string& name) {
    return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0;
  });
  return names;
}

bool is_there(const std::string& path) {
  return io::file_system_of(path).name_kind(path) != io::NameKind::kFree;
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
    throw Error(ErrorKind::kNotFound,
                path.starts_with("http://") || path.starts_with("https://")
                    ? "no file matches this pattern: of a web server, which lists nothing, each "
                      "path is given whole (a ? is taken for a pattern)"
                    : "no file matches this pattern; check the path",
                path);
  return found;
}

// A file that is there twice, as a list and a glob that overlap give it, would give each of its
// cells twice. What cannot be looked at is for the reader to name.
void check_each_once(const std::vector<std::string>& paths) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, const std::string*> seen;
  for (const std::string& path : paths) {
    io::PathStatus status;
    try {
      status = io::status_of(path);
    } catch (const Error&) {
      continue;
    }
    if (!status.is_there()) continue;
    const auto [other, is_new] = seen.try_emplace({status.device, status.inode}, &path);
    if (!is_new)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("given twice, so that all it holds would count twice: give it once "
                              "(the other name: {})",
                              *other->second),
                  path);
  }
}

}  // namespace

std::vector<std::string> expand_paths(const std::vector<std::string>& paths) {
  io::look_anew();
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    require_path(path);
    if (!has_pattern(path) || io::exists(path)) {
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
