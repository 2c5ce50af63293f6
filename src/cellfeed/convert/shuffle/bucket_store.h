// BucketStore: bytes scattered over many buckets and taken back bucket by bucket; in memory up to a
// limit, then in one temporary file. The file has no name once it is open, so that nothing is left
// behind however the process ends.
//
// Not thread-safe, except that copy() and take() of different buckets may run on several threads
// once the last append() is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/temp_file.h"

namespace cellfeed::convert {

class BucketStore {
 public:
  // purpose: "shuffling", for errors. dir: where the file is made, the first time memory does not
  // suffice. Blocks of at least 4 KiB a bucket are held in any case. REQUIRES: n_buckets > 0.
  BucketStore(const io::Directory& dir, std::int64_t n_buckets, std::int64_t memory_bytes,
              std::string purpose = "shuffling");
  BucketStore(const BucketStore&) = delete;
  BucketStore& operator=(const BucketStore&) = delete;

  // Throws kNoSpace or kIo, naming the directory.
  void append(std::int64_t bucket, std::span<const std::byte> bytes);
  std::int64_t bytes(std::int64_t bucket) const;
  // All that was appended, in order.
  std::vector<std::byte> copy(std::int64_t bucket) const;
  // The bytes of it from `begin` on. REQUIRES: as many are there.
  void copy(std::int64_t bucket, std::int64_t begin, std::span<std::byte> out) const;
  // The same; the bucket is empty afterwards.
  std::vector<std::byte> take(std::int64_t bucket);
  // In the temporary file.
  std::int64_t spilled_bytes() const { return file_bytes_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;  // null: in the file
    std::int64_t offset = 0;
  };
  struct Bucket {
    std::vector<Block> full;
    std::unique_ptr<std::byte[]> open;
    std::int64_t filled = 0;  // of the open block
  };

  void close_block(Bucket& bucket);
  void open_file();
  void write(std::span<const std::byte> bytes);
  void read_block(const Bucket& bucket, std::int64_t block, std::int64_t begin,
                  std::span<std::byte> out) const;
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

  io::Directory dir_;
  std::string purpose_;
  std::int64_t block_bytes_;
  std::int64_t free_blocks_;  // that may still be held in memory
  std::vector<Bucket> buckets_;
  std::optional<io::TempFile> file_;  // without a name
  std::int64_t file_bytes_ = 0;
};

}  // namespace cellfeed::convert
