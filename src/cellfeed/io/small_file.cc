#include "cellfeed/io/small_file.h"

#include <span>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::io {

std::string read_small_file(const std::string& path, std::int64_t max_bytes) {
  const auto file = open_file(path, {.access = FileAccess::kPread, .threads = 1});
  if (file->size() > max_bytes)
    throw_error(ErrorKind::kCorruptData, path,
                "{} bytes, more than such a file ever holds ({}): is it the right file?",
                file->size(), max_bytes);
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span<char>(text)));
  return text;
}

}  // namespace cellfeed::io
