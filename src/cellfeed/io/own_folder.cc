#include "cellfeed/io/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_directory.h"
#include "cellfeed/io/system_call.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::io {
namespace {

constexpr const char* kMark = ".cellfeed";
constexpr mode_t kWriteOfOthers = S_IWGRP | S_IWOTH;

bool is_hidden(std::string_view name) { return name.starts_with("."); }

bool is_lock_name(std::string_view name) {
  return is_hidden(name) && (name.ends_with(".lock") || name.ends_with(".lock.held"));
}

// And of nobody else.
bool is_of(const struct stat& folder, std::uint32_t user) {
  const uid_t owner = folder.st_uid;
  return S_ISDIR(folder.st_mode) && (owner == ::geteuid() || owner == 0 || owner == user) &&
         (folder.st_mode & kWriteOfOthers) == 0;
}

struct stat look_at(const Directory& folder) {
  struct stat status {};
  if (::fstat(folder.fd(), &status) != 0) throw_errno(errno, folder.path(), "look at this folder");
  return status;
}

}  // namespace

bool is_believable_folder(const std::string& path, std::uint32_t user) {
  struct stat status {};
  if (retry_interrupted([&] { return ::lstat(path.c_str(), &status); }) == 0)
    return is_of(status, user);
  if (errno == ENOENT || errno == ENOTDIR) return true;
  throw_errno(errno, path, "look at this folder");
}

OwnFolder::OwnFolder(Directory parent, std::string name, Directory directory, IsOurs is_ours)
    : parent_(std::move(parent)),
      name_(std::move(name)),
      directory_(std::move(directory)),
      is_ours_(is_ours) {}

std::optional<OwnFolder> OwnFolder::open(const Directory& parent, const std::string& name,
                                         IsOurs is_ours) {
  const int fd = retry_interrupted([&] {
    return ::openat(parent.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  });
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return std::nullopt;
    throw_errno(errno, parent.path_of(name), "open the folder");
  }
  return OwnFolder(parent, name,
                   Directory(std::make_shared<const LocalDirectory>(fd, parent.path_of(name))),
                   is_ours);
}

std::optional<OwnFolder> OwnFolder::find(const Directory& parent, const std::string& name,
                                         IsOurs is_ours) {
  auto folder = open(parent, name, is_ours);
  return folder && folder->directory_.file_bytes(kMark) ? std::move(folder) : std::nullopt;
}

OwnFolder OwnFolder::make(const Directory& parent, const std::string& name, IsOurs is_ours,
                          unsigned mode) {
  if (retry_interrupted([&] { return ::mkdirat(parent.fd(), name.c_str(), mode); }) == 0) {
    parent.sync();
  } else if (errno != EEXIST) {
    const int error_number = errno;
    if (error_number == ENOENT) parent.require_in_place();
    throw_errno(error_number, parent.path_of(name), "make the folder");
  }
  auto folder = open(parent, name, is_ours);
  if (!folder || !folder->is_marked_or_empty())
    throw_error(ErrorKind::kAlreadyExists, parent.path_of(name),
                "is a link, a file, or a folder that cellfeed did not make, and stays as it is; "
                "move it away");
  folder->mark();
  return *std::move(folder);
}

std::optional<OwnFolder> OwnFolder::find_within(const Directory& believed, const std::string& name,
                                                IsOurs is_ours) {
  auto folder = find(believed, name, is_ours);
  if (folder) folder->require_believable(look_at(believed).st_uid);
  return folder;
}

OwnFolder OwnFolder::make_within(const Directory& believed, const std::string& name,
                                 IsOurs is_ours) {
  OwnFolder folder = make(believed, name, is_ours);
  folder.require_believable(look_at(believed).st_uid);
  return folder;
}

// Who makes it marks it before anything else, so the mark is looked for last.
bool OwnFolder::is_marked_or_empty() const {
  return std::ranges::all_of(directory_.names(), is_hidden) || directory_.file_bytes(kMark);
}

void OwnFolder::mark() const {
  if (directory_.file_bytes(kMark)) return;
  const int fd = retry_interrupted([&] {
    return ::openat(directory_.fd(), kMark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  });
  if (fd >= 0)
    ::close(fd);
  else if (errno != EEXIST)
    throw_errno(errno, directory_.path_of(kMark), "make this file");
}

bool OwnFolder::is_believable(std::uint32_t user) const { return is_of(look_at(directory_), user); }

void OwnFolder::require_believable(std::uint32_t user) const {
  if (!is_believable(user))
    throw_error(ErrorKind::kIo, directory_.path(),
                "belongs to another user, or others may write to it, so what is there is not "
                "believed; remove it, or choose another place");
}

bool OwnFolder::is_writable() const {
  return ::faccessat(directory_.fd(), ".", W_OK | X_OK, AT_EACCESS) == 0;
}

bool OwnFolder::is_removed(std::string_view name) const {
  return is_ours_(name) || is_temp_name(name) || is_lock_name(name);
}

std::string OwnFolder::foreign_name() const {
  for (const std::string& name : directory_.names())
    if (!is_hidden(name) && !is_removed(name)) return name;
  return "";
}

void OwnFolder::empty(std::string_view but) const {
  for (const std::string& name : directory_.names())
    if (is_ours_(name) && name != but) directory_.remove(name);
  remove_leftovers_in(directory_);
}

void OwnFolder::remove() const {
  for (const std::string& name : directory_.names())
    if (is_removed(name)) directory_.remove(name);
  remove_if_empty();
}

void OwnFolder::remove_if_empty() const {
  const std::vector<std::string> names = directory_.names();
  if (std::ranges::any_of(names, [](const std::string& name) { return name != kMark; })) return;
  directory_.remove(kMark);
  if (::unlinkat(parent_.fd(), name_.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return;
  const int error_number = errno;
  mark();  // another process uses it again
  if (error_number != ENOTEMPTY && error_number != EEXIST)
    throw_errno(error_number, directory_.path(), "remove the folder");
}

}  // namespace cellfeed::io
