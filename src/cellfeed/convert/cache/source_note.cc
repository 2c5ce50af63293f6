#include "cellfeed/convert/cache/source_note.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/wall_clock.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

using Json = nlohmann::json;

// Of the note, and of how rows are cached.
constexpr int kNoteVersion = 2;

std::uint64_t content_of(const std::vector<std::string>& paths) {
  format::shard::RunningChecksum checksum;
  for (const std::string& path : paths) {
    const auto file = io::open_file(path, {.access = io::FileAccess::kPread});
    const std::int64_t size = file->size();
    checksum.add(std::as_bytes(std::span(&size, 1)));
    checksum.add(*file);
  }
  return checksum.value();
}

// Files that were written to just before they were noted may have been again, at the same time.
bool is_settled(const SourceNote& note) {
  return std::ranges::all_of(note.files, [&](const FileNote& file) {
    return std::max(file.modified_ns, file.changed_ns) < note.noted_ns - io::kSettledNs;
  });
}

}  // namespace

std::vector<FileNote> note_files(const std::vector<std::string>& paths) {
  std::vector<FileNote> files;
  for (const std::string& path : paths) {
    const io::PathStatus status = io::status_of(path);
    if (!status.is_there())
      throw_error(ErrorKind::kNotFound, path, "is gone since it was opened; open it again");
    files.push_back({std::filesystem::path(path).filename().string(), status.size,
                     status.modified_ns, status.changed_ns, status.inode});
  }
  return files;
}

SourceNote note_source(const std::vector<std::string>& paths) {
  SourceNote note;
  note.noted_ns = wall_clock_ns();
  note.files = note_files(paths);
  note.content = content_of(paths);
  return note;
}

Sameness compare_source(SourceNote& note, const std::vector<std::string>& paths) {
  const std::int64_t noted_ns = wall_clock_ns();
  std::vector<FileNote> files = note_files(paths);
  if (files == note.files && is_settled(note)) return Sameness::kSame;
  if (!std::ranges::equal(files, note.files, {}, &FileNote::bytes, &FileNote::bytes))
    return Sameness::kOther;
  if (content_of(paths) != note.content || note_files(paths) != files) return Sameness::kOther;
  note.files = std::move(files);
  note.noted_ns = noted_ns;
  return Sameness::kSameByContent;
}

std::string note_to_json(const SourceNote& note) {
  Json json = {{"version", kNoteVersion}, {"content", note.content}, {"noted_ns", note.noted_ns}};
  for (const FileNote& file : note.files)
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"modified_ns", file.modified_ns},
                             {"changed_ns", file.changed_ns},
                             {"inode", file.inode}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<SourceNote> note_from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (json.at("version") != kNoteVersion) return std::nullopt;
    SourceNote note;
    note.content = json.at("content");
    note.noted_ns = json.at("noted_ns");
    for (const Json& file : json.at("files"))
      note.files.push_back({file.at("name"), file.at("bytes"), file.at("modified_ns"),
                            file.at("changed_ns"), file.at("inode")});
    return note;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace cellfeed::convert
