// link_note: what a message about a file says of the link that led to it.
#pragma once

#include <string>

#include "cellfeed/io/file_system.h"

namespace cellfeed::io {

// " (a link to PATH)" where the path is a link; else empty.
inline std::string link_note(const std::string& path) {
  if (file_system_of(path).name_kind(path) != NameKind::kLink) return "";
  return " (a link to " + canonical(path) + ")";
}

}  // namespace cellfeed::io
