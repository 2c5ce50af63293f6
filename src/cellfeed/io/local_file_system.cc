#include "cellfeed/io/local_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_directory.h"
#include "cellfeed/io/system_call.h"
#include "cellfeed/io/write_target.h"

namespace cellfeed::io {
namespace {

PathKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return PathKind::kFile;
  return S_ISDIR(mode) ? PathKind::kDirectory : PathKind::kOther;
}

PathStatus status_from(const struct stat& found) {
  return {.kind = kind_of(found.st_mode),
          .user = found.st_uid,
          .size = found.st_size,
          .modified_ns = nanoseconds(found.st_mtim),
          .changed_ns = nanoseconds(found.st_ctim),
          .device = found.st_dev,
          .inode = found.st_ino};
}

// Files below one folder, each looked at from the folder that it is in: of its whole path, the
// system would look up every part.
class LocalVisit {
 public:
  LocalVisit(const std::string& folder, const FileVisitor& visit)
      : folder_(folder), visit_(visit) {}

  // fd: of the folder; taken. prefix: of names in it.
  void visit(int fd, const std::string& prefix, int depth) const {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), ::closedir);
    if (!stream) {
      const int error_number = errno;
      ::close(fd);
      throw_errno(error_number, path_of(prefix), "list the directory");
    }
    // Links may lead round.
    if (depth > kMostDepth)
      throw_error(ErrorKind::kUnsupported, path_of(prefix), "is too deep a folder to be listed");
    std::string name = prefix;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr && errno == EINTR) continue;
      if (entry == nullptr && errno != 0) throw_errno(errno, path_of(prefix), "list the directory");
      if (entry == nullptr) return;
      const std::string_view own = entry->d_name;
      if (own == "." || own == "..") continue;
      name.resize(prefix.size());
      name += own;
      visit_entry(fd, entry->d_name, name, depth);
    }
  }

 private:
  static constexpr int kMostDepth = 64;
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  // What goes while it is looked at, and a link that leads nowhere, is no file.
  static bool is_gone() { return errno == ENOENT || errno == ENOTDIR; }

  void visit_entry(int fd, const char* own, const std::string& name, int depth) const {
    struct stat found {};
    if (retry_interrupted([&] { return ::fstatat(fd, own, &found, 0); }) != 0) {
      if (is_gone()) return;
      throw_errno(errno, path_of(name), "look at this path");
    }
    if (S_ISREG(found.st_mode)) visit_(name, status_from(found));
    if (!S_ISDIR(found.st_mode)) return;
    const int below =
        retry_interrupted([&] { return ::openat(fd, own, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (below >= 0) return visit(below, name + "/", depth + 1);
    if (!is_gone()) throw_errno(errno, path_of(name), "open the directory");
  }

  const std::string& folder_;
  const FileVisitor& visit_;
};

class LocalFileSystem final : public FileSystem {
 public:
  PathStatus status(const std::string& path) const override {
    struct stat found {};
    if (retry_interrupted([&] { return ::stat(path.c_str(), &found); }) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return {};
      throw_errno(errno, path, "look at this path");
    }
    return status_from(found);
  }
  std::unique_ptr<ByteSource> open(const std::string& path,
                                   const LocalFileOptions& options) const override {
    return open_local_file(path, options);
  }
  std::shared_ptr<const OpenDirectory> open_directory(const std::string& path) const override {
    return std::make_shared<const LocalDirectory>(path);
  }
  void make_directories(const std::string& path) const override { make_local_directories(path); }
  NameKind name_kind(const std::string& path) const override {
    struct stat found {};
    if (retry_interrupted([&] { return ::lstat(path.c_str(), &found); }) == 0)
      return S_ISLNK(found.st_mode) ? NameKind::kLink : NameKind::kOwn;
    if (errno == ENOENT || errno == ENOTDIR) return NameKind::kFree;
    throw_errno(errno, path, "look at this path");
  }
  void remove(const std::string& path) const override {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) throw_errno(error.value(), path, "remove");
  }
  std::string canonical(const std::string& path) const override {
    std::error_code error;
    const std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
    if (error) throw_errno(error.value(), path, "look at this path");
    return found.string();
  }
  void visit_files(const std::string& folder, const FileVisitor& visit) const override {
    const int fd = retry_interrupted(
        [&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd >= 0) return LocalVisit(folder, visit).visit(fd, "", 0);
    if (errno != ENOENT && errno != ENOTDIR) throw_errno(errno, folder, "open the directory");
  }
  void require_writable_folder(const std::string& path) const override {
    require_writable_local_folder(path);
  }
};

}  // namespace

const FileSystem& local_file_system() {
  static const auto* local = new LocalFileSystem;
  return *local;
}

}  // namespace cellfeed::io
