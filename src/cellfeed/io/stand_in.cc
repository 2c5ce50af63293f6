#include "cellfeed/io/stand_in.h"

#include <algorithm>
#include <span>
#include <string>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"

namespace cellfeed::io {

void refuse_stand_in(std::string_view begin, const std::string& path) {
  if (begin.starts_with("version https://git-lfs"))
    throw Error(ErrorKind::kCorruptData,
                "this is a Git LFS pointer, not the data; run `git lfs pull` in its repository",
                path);
  if (begin.starts_with("\x1f\x8b"))
    throw Error(ErrorKind::kUnsupported,
                "is compressed as a whole, by gzip: unpack it (gunzip) and open what that gives",
                path);
  begin.remove_prefix(std::min(begin.find_first_not_of("\xEF\xBB\xBF \t\r\n"), begin.size()));
  const std::string start = lower(begin);
  if (start.starts_with("<!doctype html") || start.starts_with("<html"))
    throw Error(ErrorKind::kCorruptData,
                "this is an HTML page, not the data: its address was one for people, or wants a "
                "login; download it again",
                path);
}

void refuse_stand_in(const ByteSource& source) {
  std::string begin(static_cast<std::size_t>(std::min(source.size(), kStandInBytes)), '\0');
  if (!begin.empty()) source.read(0, std::as_writable_bytes(std::span(begin)));
  refuse_stand_in(begin, source.path());
}

}  // namespace cellfeed::io
