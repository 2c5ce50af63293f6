// FaultyFileSystem: another file system of which one call fails: whichever one counts to. Reads of
// bytes are not counted: FaultyByteSource is for these. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::testing {

class FaultyFileSystem final : public io::FileSystem {
 public:
  static constexpr const char* kFault = "planted fault";

  // fail_at: number of the call that throws kIo, from 0; negative: none does. A call that fails has
  // done nothing.
  FaultyFileSystem(std::shared_ptr<const io::FileSystem> files, std::int64_t fail_at)
      : files_(std::move(files)), count_(std::make_shared<Count>(fail_at)) {}

  std::int64_t calls() const { return count_->done.load(); }

  io::PathStatus status(const std::string& path) const override {
    count_->one(path);
    return files_->status(path);
  }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions& options) const override {
    count_->one(path);
    return files_->open(path, options);
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& path) const override {
    count_->one(path);
    return std::make_shared<const Opened>(files_->open_directory(path), count_);
  }
  void make_directories(const std::string& path) const override {
    count_->one(path);
    files_->make_directories(path);
  }
  void remove(const std::string& path) const override {
    count_->one(path);
    files_->remove(path);
  }
  std::string canonical(const std::string& path) const override { return files_->canonical(path); }

 private:
  struct Count {
    explicit Count(std::int64_t at) : fail_at(at) {}
    void one(const std::string& path) {
      if (done++ == fail_at) throw_error(ErrorKind::kIo, path, kFault);
    }
    const std::int64_t fail_at;
    std::atomic<std::int64_t> done{0};
  };

  class Written final : public io::NewFile {
   public:
    Written(std::unique_ptr<io::NewFile> file, std::shared_ptr<Count> count)
        : file_(std::move(file)), count_(std::move(count)) {}
    const std::string& path() const override { return file_->path(); }
    const std::string& temp_path() const override { return file_->temp_path(); }
    bool is_open() const override { return file_->is_open(); }
    void write(std::int64_t offset, std::span<const std::byte> bytes) override {
      count_->one(path());
      file_->write(offset, bytes);
    }
    void publish() override {
      count_->one(path());
      file_->publish();
    }

   private:
    const std::unique_ptr<io::NewFile> file_;
    const std::shared_ptr<Count> count_;
  };

  class Lines final : public io::Journal {
   public:
    Lines(std::unique_ptr<io::Journal> lines, std::string path, std::shared_ptr<Count> count)
        : lines_(std::move(lines)), path_(std::move(path)), count_(std::move(count)) {}
    void append(std::string_view text) override {
      count_->one(path_);
      lines_->append(text);
    }

   private:
    const std::unique_ptr<io::Journal> lines_;
    const std::string path_;
    const std::shared_ptr<Count> count_;
  };

  class Opened final : public io::OpenDirectory {
   public:
    Opened(std::shared_ptr<const io::OpenDirectory> directory, std::shared_ptr<Count> count)
        : directory_(std::move(directory)), count_(std::move(count)) {}
    const std::string& path() const override { return directory_->path(); }
    std::string path_of(std::string_view name) const override { return directory_->path_of(name); }
    std::vector<std::string> names() const override {
      count_->one(path());
      return directory_->names();
    }
    std::optional<std::int64_t> file_bytes(const std::string& name) const override {
      count_->one(path_of(name));
      return directory_->file_bytes(name);
    }
    void remove(const std::string& name) const override {
      count_->one(path_of(name));
      directory_->remove(name);
    }
    std::unique_ptr<io::NewFile> create(const std::string& name,
                                        io::OnExisting on_existing) const override {
      count_->one(path_of(name));
      return std::make_unique<Written>(directory_->create(name, on_existing), count_);
    }
    std::unique_ptr<io::Journal> append_to(const std::string& name) const override {
      count_->one(path_of(name));
      return std::make_unique<Lines>(directory_->append_to(name), path_of(name), count_);
    }
    std::unique_ptr<io::HeldLock> lock(const std::string& name) const override {
      count_->one(path_of(name));
      return directory_->lock(name);
    }
    void remove_leftovers(std::string_view prefix) const override {
      count_->one(path());
      directory_->remove_leftovers(prefix);
    }
    io::UnfinishedUploads remove_unfinished_uploads(
        const std::function<bool(std::string_view)>& is_ours) const override {
      count_->one(path());
      return directory_->remove_unfinished_uploads(is_ours);
    }

   private:
    const std::shared_ptr<const io::OpenDirectory> directory_;
    const std::shared_ptr<Count> count_;
  };

  const std::shared_ptr<const io::FileSystem> files_;
  const std::shared_ptr<Count> count_;
};

}  // namespace cellfeed::testing
