// TempFile: a local file under a random name beside the one it will become; no reader ever sees it
// half written. Its writer holds a lock on it for as long as it lives, so that what a dead one left
// is told from what a living one writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cellfeed/io/directory.h"

namespace cellfeed::io {

// Where a file is to appear: a name in a directory that is held open.
class FileTarget {
 public:
  FileTarget(Directory directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}
  // Opens the directory that the path lies in.
  FileTarget(const std::string& path);  // NOLINT(google-explicit-constructor): a path is one

  const Directory& directory() const { return directory_; }
  const std::string& name() const { return name_; }
  std::string path() const { return directory_.path_of(name_); }
  FileTarget with_suffix(std::string_view suffix) const {
    return {directory_, name_ + std::string(suffix)};
  }

 private:
  Directory directory_;
  std::string name_;
};

// "<path>.tmp-<pid>-<random>".
std::string make_temp_path(const std::string& path);
// True for a file name that make_temp_path made: what a killed writer leaves behind.
bool is_temp_name(std::string_view file_name);
// Removes what dead writers of this target left. What a living one writes stays, and so does
// everything where the file system has no locks to tell them apart.
void remove_leftovers(const FileTarget& target);
// The same for every target in a directory.
void remove_leftovers_in(const Directory& directory);

class TempFile final : public NewFile {
 public:
  // Throws kAlreadyExists now when the target exists and is not to be replaced, rather than after
  // hours of writing; kUnsupported where it is not on a local disk.
  TempFile(FileTarget target, OnExisting on_existing);
  // Goes on with the longest file that dead writers of the target left. Null where there is none,
  // or where the file system has no locks to tell them from living ones. Bytes in it are what was
  // written, or zeros that a machine which went down left: compare them.
  static std::unique_ptr<TempFile> take_over(const FileTarget& target);
  // Removes the file unless published or left.
  ~TempFile() override;
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const override { return path_; }
  const std::string& temp_path() const override { return temp_path_; }
  bool is_open() const override;
  void write(std::int64_t offset, std::span<const std::byte> bytes) override;
  void publish() override;  // fsync, rename, fsync of the directory
  std::int64_t size() const;
  void truncate(std::int64_t bytes);
  // Not removed when destroyed: the next one takes it over.
  void leave() { is_left_ = true; }
  // Takes the name away; what is read and written through fd() stays until that is closed.
  void remove_name();

 private:
  TempFile(FileTarget target, std::string temp_name, int fd);
  void create();

  FileTarget target_;
  OnExisting on_existing_;
  std::string path_;
  std::string temp_path_;
  std::string temp_name_;
  std::uint64_t fork_generation_;
  int fd_ = -1;
  bool has_temp_name_ = false;
  bool is_published_ = false;
  bool is_left_ = false;
};

}  // namespace cellfeed::io
