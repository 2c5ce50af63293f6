// StagedFile: a file of a bucket that is being written. It is kept in memory, what is larger in a
// local file without a name, and becomes an object when it is whole. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/directory.h"

namespace cellfeed::cloud {

class StagedFile final : public io::NewFile {
 public:
  // What is uploaded: its size, and how a part of it is read.
  struct Content {
    std::int64_t size = 0;
    std::function<void(std::int64_t offset, std::span<std::byte> out)> read;
  };
  // Throws kAlreadyExists where the name was given meanwhile and is not to be replaced.
  using Upload = std::function<void(const Content&)>;

  StagedFile(std::string path, Upload upload);
  ~StagedFile() override;
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  const std::string& path() const override { return path_; }
  const std::string& temp_path() const override { return path_; }
  bool is_open() const override;
  void write(std::int64_t offset, std::span<const std::byte> bytes) override;
  void take(int fd, std::int64_t bytes) override;
  void publish() override;

 private:
  void move_to_disk();
  void read(std::int64_t offset, std::span<std::byte> out) const;

  const std::string path_;
  const Upload upload_;
  const std::uint64_t generation_;
  std::vector<std::byte> bytes_;
  int fd_ = -1;
  std::int64_t size_ = 0;
  bool is_published_ = false;
};

}  // namespace cellfeed::cloud
