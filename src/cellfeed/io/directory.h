// Directory: a directory held by a descriptor, so that work stays in it when its path is renamed,
// removed or given to another directory meanwhile. Thread-safe. Copies share the descriptor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cellfeed::io {

class Directory {
 public:
  Directory() = default;  // none: nothing but assignment
  // Opens it. Throws kNotFound or kIo.
  Directory(const std::string& path);  // NOLINT(google-explicit-constructor): a path is one

  const std::string& path() const;
  int fd() const;
  std::string path_of(std::string_view name) const;  // for messages, and for those who need a path

  // Throws kNotFound where the path leads to another directory now, or to none.
  void require_in_place() const;
  std::vector<std::string> names() const;  // sorted
  // Size of the regular file of this name; empty where there is none. Throws kIo.
  std::optional<std::int64_t> file_bytes(const std::string& name) const;
  // True where the name is that of this open file.
  bool is_named(int file, const std::string& name) const;
  // A name that is not there is no error.
  void remove(const std::string& name) const;
  void sync() const;

 private:
  struct Open;
  std::shared_ptr<const Open> open_;
};

// Makes a directory and those above it that are missing; all of them last a power loss.
void make_directories(const std::string& path);

}  // namespace cellfeed::io
