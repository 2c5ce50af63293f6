#include "cellfeed/collection/paths.h"

#include <glob.h>
#include <sys/stat.h>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"

namespace cellfeed::collection {

std::vector<std::string> expand_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    require_path(path);
    struct stat status {};
    const bool has_pattern = path.find_first_of("*?[") != std::string::npos;
    if (!has_pattern || ::stat(path.c_str(), &status) == 0) {
      expanded.push_back(path);
      continue;
    }
    glob_t found{};
    const int result = ::glob(path.c_str(), GLOB_TILDE, nullptr, &found);
    for (std::size_t i = 0; i < found.gl_pathc; ++i) expanded.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    if (result == GLOB_NOMATCH)
      throw Error(ErrorKind::kNotFound, "no file matches this pattern; check the path", path);
    if (result != 0) throw Error(ErrorKind::kIo, "cannot list the files of this pattern", path);
  }
  if (expanded.empty())
    throw_invalid("no input paths given: pass a file, a glob or a shard directory");
  return expanded;
}

}  // namespace cellfeed::collection
