// Descriptor: that of an open file, given up while the process is short of them and taken again
// when it is needed, so that more files can be open than the limit allows. Internal to the local
// backends. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cellfeed::io {

// For who opens a file by itself and found no descriptor free: the soft limit of open files, often
// 1,024, becomes the hard one, or a file that can be opened again is closed. True where that made
// room. Thread-safe.
bool make_room_for_file();

class Descriptor {
 public:
  // Keeps the descriptor while it lives.
  class Use {
   public:
    explicit Use(const Descriptor& of) : of_(&of), fd_(of.take()) {}
    ~Use() {
      if (fd_ >= 0) of_->give_back();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // Negative where the descriptor was given up, and the name is another file's now, or nobody's.
    int fd() const { return fd_; }

   private:
    const Descriptor* of_;
    int fd_;
  };

  // Opens a regular file for reading; the kind is asked of what was opened, as a name may be given
  // to another file meanwhile. Throws kNotFound, kIo, or kUnsupported where the file system refuses
  // O_DIRECT.
  Descriptor(const std::string& path, bool direct);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

 private:
  friend class OpenDescriptors;
  static constexpr int kClosed = -1;

  int take() const;
  bool take_open() const;  // false where it was given up
  void give_back() const { users_.fetch_sub(1, std::memory_order_release); }
  int open_again() const;

  const std::string path_;
  const int flags_;
  mutable int fd_ = -1;  // of users; else guarded by the lock of all
  mutable std::atomic<int> users_{0};
  mutable std::atomic<bool> was_used_{true};  // since the last look at who may give his up
  mutable std::size_t place_ = 0;             // among all that are open
  std::uint64_t device_ = 0, inode_ = 0;
};

}  // namespace cellfeed::io
