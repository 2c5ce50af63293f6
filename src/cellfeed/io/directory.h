// Directory: a directory held open, so that work stays in it when its path is renamed, removed or
// given to another directory meanwhile. Thread-safe. Copies share what is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cellfeed::io {

enum class OnExisting { kRefuse, kReplace };

// A file that is written and has no name yet. Not thread-safe. Destroyed without publish() it
// leaves nothing behind. In a forked child it is inert: only the process that made it gives it its
// name or takes it away.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual const std::string& path() const = 0;       // that it will have
  virtual const std::string& temp_path() const = 0;  // for messages and tests
  // False once published, and in a forked child.
  virtual bool is_open() const = 0;
  // REQUIRES: at most the bytes written so far lie before offset. Throws kNoSpace or kIo.
  virtual void write(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  // Instead of writing: the first `bytes` bytes that a local file has when this is published, as
  // its descriptor reads them. Copies nothing where it need not. Throws as write does, and kIo
  // where the file is shorter.
  virtual void take(int fd, std::int64_t bytes);
  // Whole and lasting, or not at all. Throws kNotFound where the path leads to another directory
  // now, kAlreadyExists where the name was given meanwhile and is not to be replaced.
  virtual void publish() = 0;
};

// A file that lines are added to. Each lasts once append returns. Thread-safety: none.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void append(std::string_view text) = 0;
};

// What a DirectoryLock holds.
class HeldLock {
 public:
  virtual ~HeldLock() = default;
  virtual void show_life() const {}
};

// What became of files of dead writers that were sent in parts and never put together: no files,
// but some stores of objects keep their parts, and charge for them.
struct UnfinishedUploads {
  std::int64_t n_removed = 0;
  std::string warning{};  // of what may be left: why, and what to do; empty: all are gone
};

// A directory of one file system.
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
  virtual const std::string& path() const = 0;  // as given
  virtual std::string path_of(std::string_view name) const = 0;
  // Throws kNotFound where the path leads to another directory now, or to none.
  virtual void require_in_place() const {}
  virtual std::vector<std::string> names() const = 0;  // sorted
  // Size of the regular file of this name; empty where there is none. Throws kIo.
  virtual std::optional<std::int64_t> file_bytes(const std::string& name) const = 0;
  virtual void remove(const std::string& name) const = 0;  // no error where it is not there
  virtual void sync() const {}
  // As AtomicFile and DirectoryLock say.
  virtual std::unique_ptr<NewFile> create(const std::string& name,
                                          OnExisting on_existing) const = 0;
  virtual std::unique_ptr<Journal> append_to(const std::string& name) const = 0;
  virtual std::unique_ptr<HeldLock> lock(const std::string& name) const = 0;
  // Of writers that are dead, of files whose names begin so: what one that lives writes stays, and
  // so does everything where they cannot be told apart.
  virtual void remove_leftovers(std::string_view prefix) const = 0;
  // Of files in it for whose names is_ours is true. Who lives and writes one of these gets an
  // error. A store that refuses to do so is told by the answer. REQUIRES: the directory's lock, and
  // that such names are given by those alone who take it, or write for who holds it.
  virtual UnfinishedUploads remove_unfinished_uploads(
      const std::function<bool(std::string_view name)>& is_ours) const {
    static_cast<void>(is_ours);
    return {};
  }
  // Negative where there is none.
  virtual int fd() const { return -1; }
  // The mode of files that are made in it, before the process's umask.
  virtual unsigned file_mode() const { return 0666; }
};

class Directory {
 public:
  Directory() = default;  // none: nothing but assignment
  explicit Directory(std::shared_ptr<const OpenDirectory> open) : open_(std::move(open)) {}
  // Opens it. Throws kNotFound or kIo.
  Directory(const std::string& path);  // NOLINT(google-explicit-constructor): a path is one

  const std::string& path() const { return open_->path(); }
  std::string path_of(std::string_view name) const { return open_->path_of(name); }
  void require_in_place() const { open_->require_in_place(); }
  std::vector<std::string> names() const { return open_->names(); }
  std::optional<std::int64_t> file_bytes(const std::string& name) const {
    return open_->file_bytes(name);
  }
  void remove(const std::string& name) const { open_->remove(name); }
  void sync() const { open_->sync(); }
  std::unique_ptr<Journal> append_to(const std::string& name) const {
    return open_->append_to(name);
  }
  // For what is done with files of the operating system. Throws kUnsupported where they are not.
  int fd() const;
  bool is_local() const { return open_->fd() >= 0; }
  const OpenDirectory& operator*() const { return *open_; }

 private:
  std::shared_ptr<const OpenDirectory> open_;
};

}  // namespace cellfeed::io
