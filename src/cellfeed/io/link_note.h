// link_note: what a message about a file says of the link that led to it.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace cellfeed::io {

// " (a link to PATH)" where the path is a link, also of nothing; else empty.
inline std::string link_note(const std::string& path) {
  std::error_code no_link;
  const auto target = std::filesystem::read_symlink(path, no_link);
  if (no_link) return "";
  const auto folder = std::filesystem::path(path).parent_path();
  return " (a link to " + (folder / target).lexically_normal().string() + ")";
}

}  // namespace cellfeed::io
