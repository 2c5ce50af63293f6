#include "cellfeed/cloud/cache/kept_copies.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/hash_text.h"
#include "cellfeed/cloud/cache/block_file.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr int kNoteVersion = 3;
constexpr std::int64_t kMostOfNote = 1 << 16;

std::string note_name(const std::string& copy) { return fmt::format(".{}.json", copy); }

bool begins_with_hash(std::string_view text) {
  return text.size() > kHashDigits && text[kHashDigits] == '-' &&
         is_hash_text(text.substr(0, kHashDigits));
}

bool is_shown_as_it_is(std::string_view path) {
  return std::ranges::none_of(path, [](char c) { return c >= 0 && c < ' '; });
}

struct Noted {
  std::string of_object;
  std::int64_t bytes = 0;
  std::string checksum;
  std::int64_t modified_ns = 0;  // of the copy
  ObjectVersion version{};
};

// Empty where there is none that can be read, or none of this version.
std::optional<Noted> read_note(const io::Directory& directory, const std::string& copy) {
  try {
    const auto json = nlohmann::json::parse(
        io::read_small_file(directory.path_of(note_name(copy)), kMostOfNote), nullptr, false);
    if (json.at("version") != kNoteVersion || !json.at("bytes").is_number_integer())
      return std::nullopt;
    Noted noted{json.at("of"), json.at("bytes"), json.at("xxh3")};
    noted.modified_ns = json.at("modified_ns").get<std::int64_t>();
    noted.version.size = noted.bytes;
    noted.version.etag = json.at("etag");
    noted.version.modified_s = json.at("object_modified_s").get<std::int64_t>();
    noted.version.seen_s = json.at("object_seen_s").get<std::int64_t>();
    return noted;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void write_note(const io::Directory& directory, const std::string& copy, const Noted& noted) {
  const nlohmann::json json = {{"version", kNoteVersion},
                               {"of", noted.of_object},
                               {"bytes", noted.bytes},
                               {"xxh3", noted.checksum},
                               {"modified_ns", noted.modified_ns},
                               {"etag", noted.version.etag},
                               {"object_modified_s", noted.version.modified_s},
                               {"object_seen_s", noted.version.seen_s}};
  io::write_small_file(directory.path_of(note_name(copy)),
                       json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string checksum_text(const io::RunningChecksum& checksum) {
  return fmt::format("{:016x}", checksum.value());
}

// 0 where it is not known: then it counts as old.
std::int64_t modified_ns(const io::Directory& directory, const std::string& name) {
  try {
    return io::status_of(directory.path_of(name)).modified_ns;
  } catch (const Error&) {
    return 0;
  }
}

// Empty where it went meanwhile.
std::optional<KeptCopy> kept_blocks(const io::Directory& directory, const std::string& name) {
  try {
    KeptCopy kept{.name = name, .of_object = {}, .is_blocks = true};
    if (const auto blocks = BlockFile::look(directory, name)) {
      if (is_shown_as_it_is(blocks->of_object())) kept.of_object = blocks->of_object();
      kept.bytes = blocks->file().disk_bytes();
      kept.used_ns = blocks->file().modified_ns();
      return kept;
    }
    const std::optional<std::int64_t> bytes = directory.file_bytes(name);
    if (!bytes) return std::nullopt;
    kept.bytes = *bytes;
    kept.used_ns = modified_ns(directory, name);
    return kept;
  } catch (const Error&) {  // another user's, that may not be opened
    return std::nullopt;
  }
}

}  // namespace

bool is_copy_name(std::string_view name) {
  return begins_with_hash(name) && begins_with_hash(name.substr(kHashDigits + 1)) &&
         !io::is_temp_name(name);
}

CopyState state_of_copy(const io::Directory& directory, const std::string& name,
                        std::int64_t bytes) {
  const std::optional<std::int64_t> found = directory.file_bytes(name);
  auto noted = read_note(directory, name);
  if (!found || !noted) return {};
  if (*found != bytes)
    return {.damage = fmt::format("has {} bytes where {} were copied", *found, bytes)};
  const std::int64_t modified = modified_ns(directory, name);
  if (modified != 0 && noted->modified_ns == modified) return {.is_there = true};
  // Somebody wrote to it, or brought it here from elsewhere: its bytes tell.
  const std::string damage = damage_of(directory, {.name = name, .of_object = {}, .bytes = bytes});
  if (!damage.empty()) return {.damage = damage};
  try {
    noted->modified_ns = modified;
    write_note(directory, name, *noted);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a folder that may only be read
  }
  return {.is_there = true};
}

std::vector<KeptCopy> kept_copies(const io::Directory& directory) {
  std::vector<KeptCopy> copies;
  for (const std::string& name : directory.names()) {
    if (is_block_file_name(name))
      if (auto blocks = kept_blocks(directory, name)) copies.push_back(*std::move(blocks));
    if (!is_copy_name(name)) continue;
    const std::optional<std::int64_t> bytes = directory.file_bytes(name);
    if (!bytes) continue;
    const std::optional<Noted> noted = read_note(directory, name);
    const bool is_shown = noted && is_shown_as_it_is(noted->of_object);
    KeptCopy copy{.name = name, .of_object = is_shown ? noted->of_object : "", .bytes = *bytes};
    copy.used_ns = modified_ns(directory, noted ? note_name(name) : name);
    if (noted) copy.version = noted->version;
    copies.push_back(std::move(copy));
  }
  std::ranges::stable_sort(copies, {}, &KeptCopy::used_ns);
  return copies;
}

// The note first: a copy without one is made anew, and one that is made just now keeps its own.
void remove_copy(const io::Directory& directory, const KeptCopy& copy) {
  if (!copy.is_blocks) directory.remove(note_name(copy.name));
  directory.remove(copy.name);
}

std::string damage_of(const io::Directory& directory, const KeptCopy& copy,
                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (copy.is_blocks) return damage_of_blocks(directory, copy.name, progress);
  const std::optional<Noted> noted = read_note(directory, copy.name);
  if (!noted)
    return directory.file_bytes(copy.name)
               ? "its note is gone or damaged, so that nothing tells what it was"
               : "";
  if (noted->bytes != copy.bytes)
    return fmt::format("has {} bytes where {} were copied", copy.bytes, noted->bytes);
  const auto file = io::open_local_file(directory.path_of(copy.name),
                                        {.access = io::FileAccess::kPread, .threads = 1});
  io::RunningChecksum found;
  found.add(*file, progress);
  const std::string checksum = checksum_text(found);
  if (checksum == noted->checksum) return "";
  return fmt::format("the checksum is {} where {} was copied", checksum, noted->checksum);
}

void CopyNote::add(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  bytes_ += std::ssize(bytes);
}

void CopyNote::write(const io::Directory& directory, const std::string& name,
                     const std::string& of_object, const ObjectVersion& version,
                     std::int64_t modified_ns) const {
  write_note(directory, name, {of_object, bytes_, checksum_text(checksum_), modified_ns, version});
}

void note_use(const io::Directory& directory, const std::string& name) {
  const timespec now[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                           {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
  // No error: it is then taken for one that nobody uses, and copied again at worst.
  (void)::utimensat(directory.fd(), note_name(name).c_str(), now, AT_SYMLINK_NOFOLLOW);
}

std::int64_t find_room(const io::Directory& directory, std::int64_t bytes, std::int64_t limit) {
  (*directory).remove_leftovers("");
  const std::vector<KeptCopy> copies = kept_copies(directory);
  std::int64_t held = 0;
  for (const KeptCopy& copy : copies) held += copy.bytes;
  for (const KeptCopy& copy : copies) {
    if (bytes > limit || held <= limit - bytes) break;
    if (copy.of_object.empty()) continue;
    try {
      if (!copy.is_blocks) remove_copy(directory, copy);
      if (copy.is_blocks && !io::SharedFile::remove_unless_open(directory, copy.name)) continue;
      held -= copy.bytes;
    } catch (const Error&) {  // another user's: the room is looked for elsewhere
      continue;
    }
  }
  return std::clamp(limit - held, std::int64_t{0}, bytes);
}

void make_room(const io::Directory& directory, std::int64_t bytes, std::int64_t limit,
               const std::string& of_object) {
  if (bytes <= limit && find_room(directory, bytes, limit) == bytes) return;
  throw_error(ErrorKind::kNoSpace, of_object,
              "has {}, and there is no room for it in {}, which may hold {} in all "
              "(cache_bytes): raise it, clear the folder, or read without cache_dir",
              format_byte_size(bytes), directory.path(), format_byte_size(limit));
}

}  // namespace cellfeed::cloud
