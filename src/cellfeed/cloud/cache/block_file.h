// BlockFile: the blocks that are kept of one version of an object, in one sparse file: a header,
// a table with an entry for each block, and the object's bytes, each at its place. An entry holds
// the XXH3-64 of its block, and one of itself that makes a half written entry none. It is written
// once the block lasts. Many processes may fill one file: a block is the same whoever writes it.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/shared_file.h"

namespace cellfeed::cloud {

// The name of such a file: "blocks-<hash of the path>-<hash of the version>-<name of the object>".
inline constexpr std::string_view kBlocksPrefix = "blocks-";
bool is_block_file_name(std::string_view name);

class BlockFile {
 public:
  // Of random records of some 2 kB a block is 500 times what is asked for, so it is as small as
  // pays: over 30 ms of latency and 200 MB/s some dozens of requests of 1 MiB fill the link.
  static constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

  // Opens it, or makes it where there is none or one that is damaged. Throws kIo, kNoSpace.
  static std::unique_ptr<BlockFile> open_or_make(const io::Directory& directory,
                                                 const std::string& name,
                                                 const std::string& of_object,
                                                 std::int64_t object_bytes,
                                                 std::int64_t block_bytes = kBlockBytes);
  // What is there under such a name; null where it is no whole file of blocks.
  static std::unique_ptr<BlockFile> look(const io::Directory& directory, const std::string& name);
  // The least that it takes of the disk to keep a block.
  static std::int64_t least_bytes(std::int64_t object_bytes,
                                  std::int64_t block_bytes = kBlockBytes);

  const io::SharedFile& file() const { return *file_; }
  bool is_new() const { return is_new_; }                      // made when it was opened
  const std::string& of_object() const { return of_object_; }  // its path, of long ones the begin
  std::int64_t n_blocks() const;
  std::int64_t block_bytes() const { return block_bytes_; }
  io::ByteRange range_of(std::int64_t block) const;

  // The checksum of a block that is kept; empty where it is not, or its entry is not whole.
  std::optional<std::uint64_t> checksum_of(std::int64_t block) const;
  // Whether there is an entry that is not whole.
  bool is_entry_damaged(std::int64_t block) const;
  // Bytes of the object, as they lie there. False where they cannot be had.
  bool read(std::int64_t offset, std::span<std::byte> out) const;
  // The same, of a whole block, compared with its checksum.
  bool read_block(std::int64_t block, std::uint64_t checksum, std::span<std::byte> out) const;
  static std::uint64_t checksum(std::span<const std::byte> block);
  // Throws what SharedFile::write throws. It counts once it was noted.
  void write_block(std::int64_t block, std::span<const std::byte> bytes) const;
  // REQUIRES: file().sync() has returned since the block was written.
  void note_block(std::int64_t block, std::uint64_t checksum) const;

 private:
  struct Entry {
    std::uint64_t checksum = 0;
    std::uint64_t guard = 0;
  };
  BlockFile(std::unique_ptr<io::SharedFile> file, std::string of_object, std::uint64_t name_hash,
            std::int64_t object_bytes, std::int64_t block_bytes);
  std::uint64_t guard_of(std::int64_t block, std::uint64_t checksum) const;
  std::optional<Entry> read_entry(std::int64_t block) const;

  std::unique_ptr<io::SharedFile> file_;
  std::string of_object_;
  std::uint64_t name_hash_;
  std::int64_t object_bytes_;
  std::int64_t block_bytes_;
  bool is_new_ = false;
};

// Empty where every block that is kept is as it was written, and where the file is gone by now.
// progress gets bytes done and bytes.
std::string damage_of_blocks(const io::Directory& directory, const std::string& name,
                             const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace cellfeed::cloud
