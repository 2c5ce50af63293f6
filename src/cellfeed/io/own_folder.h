// OwnFolder: a folder inside another one that this program makes for itself, and so may empty, lock
// and remove: caches, the parts of an unfinished build. It is opened from the folder that it is in,
// never through a link, and a file inside, ".cellfeed", marks it as ours. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cellfeed/io/directory.h"

namespace cellfeed::io {

// Who may write to a folder of its own.
inline constexpr unsigned kReadByAll = 0755;
inline constexpr unsigned kForThisUser = 0700;

// Whether nobody but root, this user and `user` can have written what is in a folder of this path:
// it is theirs, no link, and others may not write to it. True where nothing is there yet.
bool is_believable_folder(const std::string& path, std::uint32_t user);

class OwnFolder {
 public:
  // Whether this program gives files there this name, beside locks and temporary ones.
  using IsOurs = bool (*)(std::string_view name);

  // Empty where no folder with the mark has this name.
  static std::optional<OwnFolder> find(const Directory& parent, const std::string& name,
                                       IsOurs is_ours);
  // Makes it where nothing has this name, and marks one that is empty. Throws kAlreadyExists where
  // something else has the name.
  static OwnFolder make(const Directory& parent, const std::string& name, IsOurs is_ours,
                        unsigned mode = kReadByAll);

  // The same within a folder that is believed: throw kIo where others than its owner could have
  // written what is in the inner one.
  static std::optional<OwnFolder> find_within(const Directory& believed, const std::string& name,
                                              IsOurs is_ours);
  static OwnFolder make_within(const Directory& believed, const std::string& name, IsOurs is_ours);

  // Files that are made through it are for this user alone to write to.
  const Directory& directory() const { return directory_; }
  // As is_believable_folder says.
  bool is_believable(std::uint32_t user) const;
  // Throws kIo where it is not.
  void require_believable(std::uint32_t user) const;
  bool is_writable() const;
  // The first file that is not ours; hidden ones are of file systems and desktops, and do not
  // count. Empty: there is none.
  std::string foreign_name() const;
  // Removes our files, but for the one of this name. Those of others stay, and so do temporary
  // files of living writers.
  void empty(std::string_view but = "") const;
  // The same with locks, temporary files, and the folder itself unless something else is in it.
  void remove() const;
  void remove_if_empty() const;

 private:
  OwnFolder(Directory parent, std::string name, Directory directory, IsOurs is_ours);
  static std::optional<OwnFolder> open(const Directory& parent, const std::string& name,
                                       IsOurs is_ours);
  bool is_marked_or_empty() const;
  void mark() const;
  bool is_removed(std::string_view name) const;

  Directory parent_;
  std::string name_;
  Directory directory_;
  IsOurs is_ours_;
};

}  // namespace cellfeed::io
