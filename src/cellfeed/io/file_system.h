// FileSystem: the seam for "where paths lead": what is there, its bytes, and files that appear
// whole. A path that begins with "scheme://" belongs to the file system of that scheme, every other
// to the local one. README.md in this folder lists the steps to add one more. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::io {

enum class PathKind { kNone, kFile, kDirectory, kOther };

// What a path leads to, links followed.
struct PathStatus {
  PathKind kind = PathKind::kNone;
  std::uint32_t user = 0;  // that it belongs to, on a local disk
  std::int64_t size = 0;   // of a file
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;  // of its bytes or of what is said of it, its name for one
  // When that was so, by the clock of whoever has the file, where that is another machine; else 0.
  std::int64_t seen_ns = 0;
  // Two paths lead to one file where both are equal; 0 where nothing is there.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  bool is_there() const { return kind != PathKind::kNone; }
  bool is_file() const { return kind == PathKind::kFile; }
  bool is_directory() const { return kind == PathKind::kDirectory; }
};

enum class NameKind { kFree, kOwn, kLink };

// name: of a file, from the folder that is visited: "X/data/0".
using FileVisitor = std::function<void(std::string_view name, const PathStatus& status)>;

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Nothing being there is an answer. Throws kIo where it cannot be told.
  virtual PathStatus status(const std::string& path) const = 0;
  // The file as it is now: what happens to its name later is no matter. Options are for local
  // files; others serve reads in their own way. Throws kNotFound or kIo.
  virtual std::unique_ptr<ByteSource> open(const std::string& path,
                                           const LocalFileOptions& options) const = 0;
  // Throws kNotFound or kIo.
  virtual std::shared_ptr<const OpenDirectory> open_directory(const std::string& path) const = 0;
  // And those above it that are missing. Throws kAlreadyExists where a file is in the way.
  virtual void make_directories(const std::string& path) const = 0;
  // Of the name itself: a link that leads nowhere is there too.
  virtual NameKind name_kind(const std::string& path) const {
    return status(path).is_there() ? NameKind::kOwn : NameKind::kFree;
  }
  // A file, or a directory that is empty; what is not there is no error.
  virtual void remove(const std::string& path) const = 0;
  // The path without what may stand in it twice or not at all, links resolved as far as it is
  // there: of two paths of which one lies in the other, the longer begins with the shorter.
  virtual std::string canonical(const std::string& path) const = 0;
  // Each file below the folder, at any depth, links followed, in no order: what status says of it,
  // told by the folder where that is quicker. None where there is no such folder. Throws kIo, and
  // kUnsupported where folders cannot be listed.
  virtual void visit_files(const std::string& folder, const FileVisitor& visit) const;
  // As io::require_writable_folder says, where that can be told before a file is made.
  virtual void require_writable_folder(const std::string&) const {}
};

// Of that path. Throws kUnsupported where its scheme is not known, listing those that are.
const FileSystem& file_system_of(const std::string& path);
bool is_local(std::string_view path);

// Makes a scheme known for good: files may be closed while the process ends. scheme: "s3", of
// letters and digits. Throws kInvalidArgument where it is taken. REQUIRES: nothing reads under it
// before.
void register_scheme(const std::string& scheme, std::shared_ptr<const FileSystem> file_system);

// Makes a scheme known while it lives. REQUIRES: nothing reads or writes under it before or after.
class FileSystemRegistration {
 public:
  // As register_scheme.
  FileSystemRegistration(std::string scheme, std::shared_ptr<const FileSystem> file_system);
  ~FileSystemRegistration();
  FileSystemRegistration(const FileSystemRegistration&) = delete;
  FileSystemRegistration& operator=(const FileSystemRegistration&) = delete;

 private:
  const std::string scheme_;
};

// Of the file system that the path belongs to.
PathStatus status_of(const std::string& path);
bool exists(const std::string& path);
bool is_directory(const std::string& path);
std::unique_ptr<ByteSource> open_file(const std::string& path,
                                      const LocalFileOptions& options = {});
void make_directories(const std::string& path);
void remove(const std::string& path);
std::string canonical(const std::string& path);

// A directory of a local disk for what is kept in a file while `directory` is written to: that one
// where it is local, else the system's own.
Directory scratch_directory(const Directory& directory);

}  // namespace cellfeed::io
