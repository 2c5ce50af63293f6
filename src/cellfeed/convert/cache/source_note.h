// SourceNote: what the files of a dataset were when something was made of them, so that it is never
// taken for what they are now. Pure data; taking and comparing look at the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cellfeed::convert {

struct FileNote {
  std::string name;  // without its folder
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // of the contents, and of the file's description
  std::int64_t changed_ns = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileNote&) const = default;
};

struct SourceNote {
  std::vector<FileNote> files;
  std::uint64_t content = 0;  // XXH3-64 of all bytes of all files
  std::int64_t noted_ns = 0;  // when
};

// Throws kNotFound and kIo.
std::vector<FileNote> note_files(const std::vector<std::string>& paths);
// Reads the files whole.
SourceNote note_source(const std::vector<std::string>& paths);
// Whether the files are those noted: by their size, times and number where these tell, else by all
// of their bytes; then the note is brought up to date.
enum class Sameness { kOther, kSame, kSameByContent };
Sameness compare_source(SourceNote& note, const std::vector<std::string>& paths);

std::string note_to_json(const SourceNote& note);
// Empty where it is none of ours, or of another version.
std::optional<SourceNote> note_from_json(const std::string& text);

}  // namespace cellfeed::convert
