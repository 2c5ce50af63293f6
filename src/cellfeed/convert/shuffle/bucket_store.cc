#include "cellfeed/convert/shuffle/bucket_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kSmallestBlock = 4 << 10;
constexpr std::int64_t kLargestBlock = 256 << 10;

}  // namespace

BucketStore::BucketStore(const io::Directory& dir, std::int64_t n_buckets,
                         std::int64_t memory_bytes, std::string purpose)
    : dir_(dir), purpose_(std::move(purpose)), buckets_(static_cast<std::size_t>(n_buckets)) {
  // Half of the memory for open blocks, the other half for those that are full.
  block_bytes_ = std::clamp(memory_bytes / 2 / n_buckets, kSmallestBlock, kLargestBlock) /
                 kSmallestBlock * kSmallestBlock;
  free_blocks_ = std::max<std::int64_t>(0, memory_bytes / block_bytes_ - n_buckets);
}

void BucketStore::open_file() {
  dir_ = io::scratch_directory(dir_);
  file_.emplace(io::FileTarget(dir_, "scattered_cells"), io::OnExisting::kReplace);
  file_->remove_name();
}

void BucketStore::write(std::span<const std::byte> bytes) {
  if (!io::write_whole(file_->fd(), bytes, file_bytes_))
    throw_errno(errno, dir_.path(),
                fmt::format("write to the temporary file for {}, {} bytes long so far", purpose_,
                            file_bytes_));
}

void BucketStore::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = io::retry_interrupted(
        [&] { return ::pread(file_->fd(), bytes.data(), bytes.size(), offset); });
    if (n <= 0)
      throw_errno(n < 0 ? errno : EIO, dir_.path(),
                  fmt::format("read the temporary file for {} back", purpose_));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

void BucketStore::close_block(Bucket& bucket) {
  bucket.filled = 0;
  if (free_blocks_ > 0) {
    --free_blocks_;
    bucket.full.push_back({std::move(bucket.open), 0});
    return;
  }
  if (!file_) open_file();
  bucket.full.push_back({nullptr, file_bytes_});
  write({bucket.open.get(), static_cast<std::size_t>(block_bytes_)});
}

void BucketStore::append(std::int64_t number, std::span<const std::byte> bytes) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
  while (!bytes.empty()) {
    if (!bucket.open)
      bucket.open =
          std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(block_bytes_));
    const auto n =
        std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(block_bytes_ - bucket.filled));
    std::memcpy(bucket.open.get() + bucket.filled, bytes.data(), n);
    bucket.filled += static_cast<std::int64_t>(n);
    bytes = bytes.subspan(n);
    if (bucket.filled == block_bytes_) close_block(bucket);
  }
}

std::int64_t BucketStore::bytes(std::int64_t bucket) const {
  const Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
  return std::ssize(b.full) * block_bytes_ + b.filled;
}

std::vector<std::byte> BucketStore::copy(std::int64_t number) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(this->bytes(number)));
  copy(number, 0, bytes);
  return bytes;
}

void BucketStore::copy(std::int64_t number, std::int64_t begin, std::span<std::byte> out) const {
  const Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
  while (!out.empty()) {
    const std::int64_t at = begin % block_bytes_;
    const std::int64_t n = std::min(std::ssize(out), block_bytes_ - at);
    read_block(bucket, begin / block_bytes_, at, out.first(static_cast<std::size_t>(n)));
    out = out.subspan(static_cast<std::size_t>(n));
    begin += n;
  }
}

void BucketStore::read_block(const Bucket& bucket, std::int64_t number, std::int64_t begin,
                             std::span<std::byte> out) const {
  const bool is_full = number < std::ssize(bucket.full);
  const Block* block = is_full ? &bucket.full[static_cast<std::size_t>(number)] : nullptr;
  if (block != nullptr && !block->memory) return read(block->offset + begin, out);
  const std::byte* memory = block != nullptr ? block->memory.get() : bucket.open.get();
  std::memcpy(out.data(), memory + begin, out.size());
}

std::vector<std::byte> BucketStore::take(std::int64_t number) {
  std::vector<std::byte> bytes = copy(number);
  buckets_[static_cast<std::size_t>(number)] = Bucket{};
  return bytes;
}

}  // namespace cellfeed::convert
