// Whole copies of objects, and files of blocks of them (block_file.h), that a folder of a local
// disk holds (file_cache.h makes them), for those who look after it. A copy has a note beside it:
// what it is of, the checksum of its bytes, and, by the time of the note, when it was last opened.
// A file of blocks says so itself. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/running_checksum.h"

namespace cellfeed::cloud {

struct KeptCopy {
  std::string name;          // of its file
  std::string of_object;     // its path; empty where the note is gone or damaged
  std::int64_t bytes = 0;    // on the disk
  std::int64_t used_ns = 0;  // since 1970
  bool is_blocks = false;
  ObjectVersion version{};  // of the object, as far as offline readers need it
};

// The name of a copy: "<hash of the path>-<hash of the version>-<name of the object>".
bool is_copy_name(std::string_view name);
struct CopyState {
  bool is_there = false;
  std::string damage{};  // why a copy with a note cannot be used
};
// Whether a copy of so many bytes is there, with its note. One that was written to since it was
// made is compared with its checksum.
CopyState state_of_copy(const io::Directory& directory, const std::string& name,
                        std::int64_t bytes);
// Those used longest ago first. Others may come and go meanwhile.
std::vector<KeptCopy> kept_copies(const io::Directory& directory);
void remove_copy(const io::Directory& directory, const KeptCopy& copy);
// Empty where every byte is as it was copied, and where it is gone by now. progress gets bytes done
// and bytes. Throws what reading and progress throw.
std::string damage_of(const io::Directory& directory, const KeptCopy& copy,
                      const std::function<void(std::int64_t, std::int64_t)>& progress = {});

// The note of a copy that is being made. Not thread-safe.
class CopyNote {
 public:
  void add(std::span<const std::byte> bytes);
  // REQUIRES: all bytes were added. Before the copy has its name. modified_ns: the time of the
  // copy.
  void write(const io::Directory& directory, const std::string& name, const std::string& of_object,
             const ObjectVersion& version, std::int64_t modified_ns) const;

 private:
  io::RunningChecksum checksum_;
  std::int64_t bytes_ = 0;
};

// The copy is opened now. What cannot be noted (a folder that may only be read) is not.
void note_use(const io::Directory& directory, const std::string& name);
// Removes copies that have a note, and blocks that nobody reads, those used longest ago first,
// until `bytes` more are at most `limit`. Returns how many more there is room for, at most `bytes`.
std::int64_t find_room(const io::Directory& directory, std::int64_t bytes, std::int64_t limit);
// The same. Throws kNoSpace where there is not room for all of them.
void make_room(const io::Directory& directory, std::int64_t bytes, std::int64_t limit,
               const std::string& of_object);

}  // namespace cellfeed::cloud
