// LocalDirectory: a directory of a local disk, held by a descriptor. Internal to the local file
// system.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/io/directory.h"

namespace cellfeed::io {

class LocalDirectory final : public OpenDirectory,
                             public std::enable_shared_from_this<LocalDirectory> {
 public:
  // Empty: the working directory. Throws kNotFound or kIo.
  explicit LocalDirectory(const std::string& path);
  // A folder of our own (own_folder.h), whose files others may not change. Takes fd.
  LocalDirectory(int fd, const std::string& path);
  ~LocalDirectory() override;
  LocalDirectory(const LocalDirectory&) = delete;
  LocalDirectory& operator=(const LocalDirectory&) = delete;

  const std::string& path() const override { return path_; }
  std::string path_of(std::string_view name) const override;
  void require_in_place() const override;
  std::vector<std::string> names() const override;
  std::optional<std::int64_t> file_bytes(const std::string& name) const override;
  void remove(const std::string& name) const override;
  void sync() const override;
  std::unique_ptr<NewFile> create(const std::string& name, OnExisting on_existing) const override;
  std::unique_ptr<Journal> append_to(const std::string& name) const override;
  std::unique_ptr<HeldLock> lock(const std::string& name) const override;
  void remove_leftovers(std::string_view prefix) const override;
  int fd() const override { return fd_; }
  unsigned file_mode() const override { return file_mode_; }

 private:
  const std::string path_;           // as given, for messages
  const bool is_working_;            // the working directory, by no name
  const std::string absolute_path_;  // what it was when opened: the working directory may change
  const unsigned file_mode_ = 0666;
  int fd_ = -1;
};

// True where the name in the directory is that of this open file.
bool is_named(const Directory& directory, int file, const std::string& name);

// flock on a file of that name; where there is no flock, an exclusive file beside it.
std::unique_ptr<HeldLock> lock_local_directory(Directory directory, const std::string& name);

void make_local_directories(const std::string& path);

}  // namespace cellfeed::io
