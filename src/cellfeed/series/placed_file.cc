#include "cellfeed/series/placed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::series {
namespace {

// Gathered before they are written: the kernel takes more at once for less.
constexpr std::int64_t kGatheredBytes = std::int64_t{1} << 20;
constexpr std::int64_t kReadBytes = std::int64_t{256} << 10;
// Written at a time before the disk is told to begin.
constexpr std::int64_t kWriteBackBytes = std::int64_t{8} << 20;
// Of a file of another file system, copied at a time.
constexpr std::int64_t kCopiedBytes = std::int64_t{16} << 20;

// The file itself, else one without a name beside what is temporary.
io::FileTarget local_target(const io::FileTarget& target) {
  if (target.directory().is_local()) return target;
  return {io::scratch_directory(target.directory()), "cellfeed-series"};
}

void send(const io::FileTarget& target, int fd, std::int64_t bytes, io::OnExisting on_existing) {
  const auto file = (*target.directory()).create(target.name(), on_existing);
  file->take(fd, bytes);
  file->publish();
}

}  // namespace

void PlacedBytes::keep_elsewhere(io::TempFile& file) {
  file.remove_name();
  disk_path_ = file.path() + " (TMPDIR names another place)";
}

void PlacedBytes::take_room(int fd, std::int64_t from) {
  fd_ = fd;
  if (bytes_ == from) return;
  const auto allocate = [&] { return ::fallocate(fd, 0, from, bytes_ - from); };
  const auto set_size = [&] { return ::ftruncate(fd, bytes_); };
  int result = io::retry_interrupted(allocate);
  // File systems without fallocate say that there is no room when they are written to.
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
    result = io::retry_interrupted(set_size);
  if (result != 0)
    throw_errno(errno, disk_path_, fmt::format("make room for {} bytes", bytes_ - from));
}

PlacedFile::PlacedFile(io::FileTarget target, std::int64_t bytes)
    : PlacedBytes(target.path(), bytes),
      target_(std::move(target)),
      file_(local_target(target_),
            target_.directory().is_local() ? io::OnExisting::kRefuse : io::OnExisting::kReplace) {
  if (!target_.directory().is_local()) keep_elsewhere(file_);
  take_room(file_.fd(), 0);
}

void PlacedFile::commit() {
  if (target_.directory().is_local()) return file_.publish();
  send(target_, file_.fd(), bytes_, io::OnExisting::kRefuse);
}

LongerFile::LongerFile(const io::Directory& directory, const std::string& name, std::int64_t before,
                       std::int64_t bytes)
    : PlacedBytes(directory.path_of(name), bytes), target_(directory, name), before_(before) {
  directory.is_local() ? open_local() : copy_remote();
}

void LongerFile::open_local() {
  descriptor_ = io::retry_interrupted([&] {
    return ::openat(target_.directory().fd(), target_.name().c_str(),
                    O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  });
  if (descriptor_ < 0 && errno == ELOOP)
    throw_error(
        ErrorKind::kInvalidArgument, path_,
        "is a link, and what links lead to is not written to: put a copy of the file there");
  if (descriptor_ < 0) throw_errno(errno, path_, "open this file to append to it");
  try {
    struct stat status;
    if (::fstat(descriptor_, &status) != 0) throw_errno(errno, path_, "get the size of the file");
    if (status.st_size < before_)
      throw_error(ErrorKind::kCorruptData, path_, "has {} bytes where the metadata say {}",
                  status.st_size, before_);
    // What an append that was stopped left: what is made longer again reads as zeros.
    if (status.st_size > before_) cut_off();
    take_room(descriptor_, before_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorruptData) (void)!::ftruncate(descriptor_, before_);
    ::close(descriptor_);
    throw;
  }
}

void LongerFile::copy_remote() {
  copy_.emplace(local_target(target_), io::OnExisting::kReplace);
  keep_elsewhere(*copy_);
  take_room(copy_->fd(), 0);
  const auto source = io::open_file(path_);
  if (source->size() < before_)
    throw_error(ErrorKind::kCorruptData, path_, "has {} bytes where the metadata say {}",
                source->size(), before_);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(before_, kCopiedBytes)));
  for (std::int64_t at = 0; at < before_; at += kCopiedBytes) {
    const auto n = static_cast<std::size_t>(std::min(before_ - at, kCopiedBytes));
    source->read(at, std::span(buffer).first(n));
    write_at(at, std::span(buffer).first(n));
  }
}

LongerFile::~LongerFile() {
  if (descriptor_ < 0) return;
  // Where this fails, the bytes past the end are of nobody: the metadata do not count them.
  if (!is_kept_) (void)!::ftruncate(descriptor_, before_);
  ::close(descriptor_);
}

void LongerFile::cut_off() {
  if (io::retry_interrupted([&] { return ::ftruncate(descriptor_, before_); }) != 0)
    throw_errno(errno, path_, "cut off what an append that was stopped left");
}

void LongerFile::sync() {
  if (copy_) return send(target_, copy_->fd(), bytes_, io::OnExisting::kReplace);
  if (io::retry_interrupted([&] { return ::fsync(descriptor_); }) != 0)
    throw_errno(errno, path_, "sync the file");
}

void PlacedBytes::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  const auto n = std::ssize(bytes);
  if (!io::write_whole(fd_, bytes, offset)) throw_errno(errno, disk_path_, "write");
  begin_write_back(n);
}

// The disk writes while rows are still being made, and the last sync waits for less. A hint.
void PlacedBytes::begin_write_back(std::int64_t n) {
  const std::int64_t before = written_.fetch_add(n, std::memory_order_relaxed);
  if (before / kWriteBackBytes != (before + n) / kWriteBackBytes)
    (void)!::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
}

std::uint64_t PlacedBytes::segment_checksum(std::int64_t segment, std::int64_t end) const {
  if (const auto& known = known_[static_cast<std::size_t>(segment)]; known && end == bytes_)
    return *known;
  end = std::min(end, (segment + 1) * kSegmentBytes);
  std::vector<std::byte> bytes(kReadBytes);  // stays in caches
  format::shard::RunningChecksum checksum;
  for (std::int64_t at = segment * kSegmentBytes; at < end;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(kReadBytes, end - at));
    const ssize_t n = io::retry_interrupted([&] { return ::pread(fd_, bytes.data(), wanted, at); });
    if (n < 0) throw_errno(errno, disk_path_, "read back");
    if (n == 0) throw Error(ErrorKind::kIo, "became shorter while it was written", path_);
    checksum.add(std::span(bytes).first(static_cast<std::size_t>(n)));
    at += n;
  }
  return checksum.value();
}

PlacedRun::PlacedRun(PlacedBytes& file, std::int64_t begin, std::int64_t bytes, std::int64_t unit)
    : file_(file),
      at_(begin),
      unit_(static_cast<std::size_t>(unit)),
      capacity_(static_cast<std::size_t>(std::max(unit, std::min(bytes, kGatheredBytes)))),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(capacity_)) {}

std::span<std::byte> PlacedRun::room() {
  if (capacity_ - n_ < unit_) flush();
  return {bytes_.get() + n_, capacity_ - n_};
}

void PlacedRun::flush() {
  const std::span<const std::byte> bytes(bytes_.get(), std::exchange(n_, 0));
  file_.write_at(at_, bytes);
  add_to_checksums(bytes);
}

void PlacedRun::add_to_checksums(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t segment = at_ / kSegmentBytes;
    const std::int64_t end = std::min((segment + 1) * kSegmentBytes, file_.size());
    if (at_ == segment * kSegmentBytes) checksum_.emplace();
    const auto n = std::min(bytes.size(), static_cast<std::size_t>(end - at_));
    if (checksum_) checksum_->add(bytes.first(n));
    bytes = bytes.subspan(n);
    at_ += static_cast<std::int64_t>(n);
    if (at_ < end || !checksum_) continue;
    file_.known_[static_cast<std::size_t>(segment)] = checksum_->value();
    checksum_.reset();
  }
}

}  // namespace cellfeed::series
