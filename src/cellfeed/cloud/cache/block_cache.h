// BlockCache: the blocks of one object, where they are (in its file or on their way) and how they
// get into the file. A block is believed once its bytes were compared with its checksum by this
// process, or were written by it and last. Thread-safe; a forked child begins with none believed.
// internal to block_source.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cellfeed/cloud/cache/block_file.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_buffer.h"

namespace cellfeed::cloud {

class BlockCache;

// Of all caches of a process, on their way. Some dozens of requests: enough for any link.
inline constexpr std::int64_t kMostBytesUnderWay = std::int64_t{128} << 20;

// Neighbouring blocks that are read by one request, by whoever asked first, for all who want them.
// Thread-safe. Lifetime: the cache outlives it.
class BlockFetch {
 public:
  BlockFetch(BlockCache& cache, std::int64_t first, std::int64_t n_blocks);
  ~BlockFetch();
  BlockFetch(const BlockFetch&) = delete;
  BlockFetch& operator=(const BlockFetch&) = delete;

  std::int64_t first() const { return first_; }
  std::int64_t n_blocks() const { return n_blocks_; }
  void begin();
  // The bytes of all its blocks. Throws what the source throws, and again when called again, but
  // for kCancelled of who is stopped.
  std::span<const std::byte> wait();

 private:
  class Turn;
  void begin_in_turn();
  void wait_in_turn();
  template <typename Work>
  void keep_error_of(const Work& work);

  BlockCache& cache_;
  const std::int64_t first_, n_blocks_;
  std::mutex mutex_;  // guards what follows, which is of who has the turn while it is taken
  std::condition_variable_any given_back_;
  bool is_taken_ = false;
  io::ReadBuffer buffer_;
  std::span<std::byte> bytes_;
  std::unique_ptr<io::PendingReads> pending_;
  std::exception_ptr error_;
  bool is_begun_ = false, is_done_ = false;
};

class BlockCache {
 public:
  // limit: of all caches in the folder, an absolute path; negative for none.
  BlockCache(std::shared_ptr<const io::ByteSource> remote, std::unique_ptr<BlockFile> file,
             std::string folder, std::int64_t limit);
  // Notes what was read lately.
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  const io::ByteSource& remote() const { return *remote_; }
  const BlockFile& file() const { return *file_; }
  bool is_of(const BlockFile& file, std::int64_t limit) const;
  bool is_believed(std::int64_t block);
  bool is_full();  // all blocks are believed
  // Whether what is read is kept. For good where it is not.
  bool is_keeping() { return state().is_keeping; }
  // The same, for who has blocks to read.
  bool will_keep();
  // Bytes of blocks that are believed. False where they cannot be had: none is believed then.
  bool read_believed(std::int64_t offset, std::span<std::byte> out);
  // A whole block. False where it is not kept, or is damaged.
  bool read_kept(std::int64_t block, std::span<std::byte> out);
  // What is to be waited for to have these blocks, as far as there is memory for it; is_one_due: of
  // the first in any case. REQUIRES: ascending.
  std::vector<std::shared_ptr<BlockFetch>> fetches_of(std::span<const std::int64_t> blocks,
                                                      bool is_one_due);
  // Has blocks that were read written.
  void keep(std::int64_t first, std::span<const std::byte> bytes);
  // What was written lasts, and is there for other processes.
  void publish();

 private:
  friend class BlockFetch;
  using Clock = std::chrono::steady_clock;
  struct State {
    explicit State(std::int64_t n_blocks) : believed(static_cast<std::size_t>(n_blocks)) {}
    std::vector<std::atomic<std::uint8_t>> believed;
    std::atomic<std::int64_t> n_believed{0};
    std::atomic<bool> is_keeping{true};
    std::mutex mutex;  // guards what follows
    std::unordered_map<std::int64_t, std::weak_ptr<BlockFetch>> under_way;
    std::unordered_map<std::int64_t, std::uint64_t> unsynced;  // checksums of what was written
    Clock::time_point first_unsynced;
    bool is_syncing = false;
  };
  State& state();
  void believe(std::int64_t block);
  void believe_none();
  void keep_block(std::int64_t block, std::span<const std::byte> bytes);
  void stop_keeping(const std::string& why);
  bool is_time_to_publish();
  void publish_all(State& state);
  void end(const BlockFetch& fetch);

  const std::shared_ptr<const io::ByteSource> remote_;
  const std::unique_ptr<BlockFile> file_;
  const std::string folder_;
  const std::int64_t limit_;
  exec::PerProcess<std::unique_ptr<State>> state_;
};

// Of all caches of this process that are open.
void publish_blocks();
// Known to publish_blocks() while somebody holds it. is_shared: the one of the same file that is
// open in this process and keeps blocks, where there is one, so that who opens an object twice asks
// for its blocks once.
std::shared_ptr<BlockCache> make_block_cache(std::shared_ptr<const io::ByteSource> remote,
                                             std::unique_ptr<BlockFile> file, std::string folder,
                                             std::int64_t limit, bool is_shared = false);

}  // namespace cellfeed::cloud
