// A memory-mapped local file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/map_guard.h"
#include "cellfeed/io/local_backends.h"

namespace cellfeed::io {
namespace {

// Longer reads go through pread: it reads ahead instead of faulting page by page.
constexpr std::size_t kMaxCopyBytes = 64 << 10;
// Linux cuts one request for read-ahead to the larger of the device's largest transfer and its
// read-ahead window, which is rarely below this.
constexpr std::int64_t kMaxAdviceBytes = 128 << 10;

class MappedSource final : public ByteSource {
 public:
  MappedSource(std::shared_ptr<const OpenFile> file, const LocalFileOptions& options)
      : path_(file->path()), size_(file->size()) {
    const auto bytes = static_cast<std::size_t>(size_);
    if (bytes == 0) return;
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->use().fd(), 0);
    if (data == MAP_FAILED) throw_errno(errno, path_, "map the file into memory");
    mapping_ = {static_cast<const std::byte*>(data), bytes};
    if (options.guarded) guard_.emplace(mapping_);
    if (options.random_access) ::madvise(data, bytes, MADV_RANDOM);  // a hint; may be refused
    if (!options.map_only) file_ = std::move(file);
  }
  ~MappedSource() override {
    guard_.reset();
    if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
  }

  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return size_; }
  bool is_unchanged() const override { return !file_ || file_->is_unchanged(); }
  bool has_lost_pages() const override { return guard_ && guard_->has_lost_pages(); }
  std::string_view backend_name() const override { return "mmap"; }
  std::span<const std::byte> map() const override { return mapping_; }

  void release_pages() const override {
    // Clean pages of a file: a hint that loses nothing.
    if (!mapping_.empty())
      ::madvise(const_cast<std::byte*>(mapping_.data()), mapping_.size(), MADV_DONTNEED);
  }

  // A read that must not wait, rather than mincore, which answers only to those who may write the
  // file.
  bool is_cached(std::span<const std::int64_t> offsets) const override {
    if (!file_) return true;
    const auto used = file_->use();
    return std::ranges::all_of(offsets, [&](std::int64_t offset) {
      std::byte byte;
      iovec vector{&byte, 1};
      return ::preadv2(used.fd(), &vector, 1, offset, RWF_NOWAIT) == 1;
    });
  }

  void will_read(std::span<const ByteRange> ranges) const override {
    if (!file_) return;
    const auto used = file_->use();
    for (const ByteRange& range : ranges)
      for (std::int64_t done = 0; done < range.length; done += kMaxAdviceBytes)
        ::posix_fadvise(used.fd(), range.offset + done,
                        std::min(kMaxAdviceBytes, range.length - done), POSIX_FADV_WILLNEED);
  }

  void read(std::int64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, std::ssize(out));
    if (out.empty()) return;
    if (out.size() > kMaxCopyBytes && file_)
      if (const auto used = file_->use(); used.fd() >= 0) return file_->read(offset, out);
    std::memcpy(out.data(), mapping_.data() + offset, out.size());
    require_all_pages(*this);
  }

 private:
  const std::string path_;
  const std::int64_t size_;
  std::shared_ptr<const OpenFile> file_;  // null where it is mapped only
  std::span<const std::byte> mapping_;
  std::optional<exec::MapGuard> guard_;
};

}  // namespace

std::unique_ptr<ByteSource> make_mapped_source(std::shared_ptr<const OpenFile> file,
                                               const LocalFileOptions& options) {
  return std::make_unique<MappedSource>(std::move(file), options);
}

}  // namespace cellfeed::io
