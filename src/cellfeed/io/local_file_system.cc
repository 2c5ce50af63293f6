#include "cellfeed/io/local_file_system.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_directory.h"
#include "cellfeed/io/system_call.h"
#include "cellfeed/io/write_target.h"

namespace cellfeed::io {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

PathKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return PathKind::kFile;
  return S_ISDIR(mode) ? PathKind::kDirectory : PathKind::kOther;
}

class LocalFileSystem final : public FileSystem {
 public:
  PathStatus status(const std::string& path) const override {
    struct stat found {};
    if (retry_interrupted([&] { return ::stat(path.c_str(), &found); }) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return {};
      throw_errno(errno, path, "look at this path");
    }
    return {.kind = kind_of(found.st_mode),
            .size = found.st_size,
            .modified_ns = nanoseconds(found.st_mtim),
            .changed_ns = nanoseconds(found.st_ctim),
            .device = found.st_dev,
            .inode = found.st_ino};
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
  void remove_all(const std::string& path) const override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) throw_errno(error.value(), path, "remove");
  }
  std::string canonical(const std::string& path) const override {
    std::error_code error;
    const std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
    if (error) throw_errno(error.value(), path, "look at this path");
    return found.string();
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
