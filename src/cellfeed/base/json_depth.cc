#include "cellfeed/base/json_depth.h"

#include <algorithm>

#include "cellfeed/base/error.h"

namespace cellfeed {
namespace {

int depth_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

void require_shallow_json(std::string_view text, const std::string& path, int max_depth) {
  if (depth_of(text) > max_depth)
    throw_error(ErrorKind::kCorruptData, path, "its JSON is nested more than {} deep", max_depth);
}

}  // namespace cellfeed
