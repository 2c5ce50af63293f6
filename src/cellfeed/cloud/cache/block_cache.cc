#include "cellfeed/cloud/cache/block_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/cache/cache_room.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/io/cache_warnings.h"

namespace cellfeed::cloud {
namespace {

// Written and not noted yet: what a process that is killed has read for nothing.
constexpr std::size_t kMostUnsynced = 64;
constexpr std::chrono::milliseconds kPublishEvery{1000};

std::atomic<std::int64_t>& bytes_under_way() {
  static auto* bytes = new exec::PerProcess<std::atomic<std::int64_t>>;
  return bytes->get([] { return std::atomic<std::int64_t>(0); });
}

struct OpenCaches {
  ForkSafeMutex mutex;  // guards what follows
  std::vector<std::weak_ptr<BlockCache>> caches;
};

OpenCaches& open_caches() {
  static auto* all = new OpenCaches;  // never destroyed: threads may outlive main
  return *all;
}

// REQUIRES: the lock is held.
std::vector<std::shared_ptr<BlockCache>> known_caches() {
  std::vector<std::shared_ptr<BlockCache>> caches;
  for (const auto& known : open_caches().caches)
    if (auto cache = known.lock()) caches.push_back(std::move(cache));
  return caches;
}

}  // namespace

BlockFetch::BlockFetch(BlockCache& cache, std::int64_t first, std::int64_t n_blocks)
    : cache_(cache), first_(first), n_blocks_(n_blocks) {
  const io::ByteRange last = cache.file().range_of(first + n_blocks - 1);
  const auto n_bytes =
      static_cast<std::size_t>(last.offset + last.length - cache.file().range_of(first).offset);
  buffer_ = io::ReadBuffer(n_bytes);
  bytes_ = {buffer_.data(), n_bytes};
  bytes_under_way() += std::ssize(bytes_);
}

BlockFetch::~BlockFetch() {
  bytes_under_way() -= std::ssize(bytes_);
  cache_.end(*this);
}

// One at a time reads, for all who wait; where it is stopped the next one goes on. The lock is let
// go meanwhile.
class BlockFetch::Turn {
 public:
  Turn(BlockFetch& fetch, std::unique_lock<std::mutex>& lock) : fetch_(fetch), lock_(lock) {
    fetch_.is_taken_ = true;
    lock_.unlock();
  }
  ~Turn() {
    lock_.lock();
    fetch_.is_taken_ = false;
    fetch_.given_back_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  BlockFetch& fetch_;
  std::unique_lock<std::mutex>& lock_;
};

void BlockFetch::begin() {
  std::unique_lock lock(mutex_);
  if (is_taken_) return;
  const Turn turn(*this, lock);
  begin_in_turn();
}

void BlockFetch::begin_in_turn() {
  if (is_begun_) return;
  keep_error_of([this] {
    const io::ReadRequest request{cache_.file().range_of(first_).offset, bytes_};
    pending_ = cache_.remote().begin_read_many({&request, 1});
  });
  is_begun_ = true;
}

void BlockFetch::wait_in_turn() {
  begin_in_turn();
  if (error_ || !pending_) return;
  keep_error_of([this] { pending_->wait(); });
  pending_.reset();
}

// An error is that of everybody who waits, but that one of them was stopped: that is its own.
template <typename Work>
void BlockFetch::keep_error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    error_ = std::current_exception();
  } catch (...) {
    error_ = std::current_exception();
  }
}

std::span<const std::byte> BlockFetch::wait() {
  std::unique_lock lock(mutex_);
  exec::wait_unless_stopped(given_back_, lock, [this] { return !is_taken_; });
  if (!error_ && !is_done_) {
    const Turn turn(*this, lock);
    wait_in_turn();
  }
  if (error_) std::rethrow_exception(error_);
  const bool was_done = std::exchange(is_done_, true);
  lock.unlock();  // others may use them while they are written
  if (!was_done) cache_.keep(first_, bytes_);
  return bytes_;
}

BlockCache::BlockCache(std::shared_ptr<const io::ByteSource> remote,
                       std::unique_ptr<BlockFile> file, std::string folder, std::int64_t limit)
    : remote_(std::move(remote)),
      file_(std::move(file)),
      folder_(std::move(folder)),
      limit_(limit) {}

BlockCache::~BlockCache() {
  if (auto* of_process = state_.peek()) publish_all(**of_process);
}

BlockCache::State& BlockCache::state() {
  return *state_.get([this] { return std::make_unique<State>(file_->n_blocks()); });
}

bool BlockCache::is_of(const BlockFile& file, std::int64_t limit) const {
  return limit_ == limit && file_->file().is_same(file.file());
}

bool BlockCache::is_believed(std::int64_t block) {
  return state().believed[static_cast<std::size_t>(block)].load(std::memory_order_acquire) != 0;
}

bool BlockCache::is_full() { return state().n_believed == file_->n_blocks(); }

bool BlockCache::will_keep() {
  if (!file_->file().is_writable()) stop_keeping("the file may only be read");
  return is_keeping();
}

void BlockCache::believe(std::int64_t block) {
  if (state().believed[static_cast<std::size_t>(block)].exchange(1) == 0) ++state().n_believed;
}

void BlockCache::believe_none() {
  for (auto& is_believed : state().believed)
    if (is_believed.exchange(0) != 0) --state().n_believed;
}

bool BlockCache::read_believed(std::int64_t offset, std::span<std::byte> out) {
  if (file_->read(offset, out)) return true;
  believe_none();
  io::warn_of_cache(fmt::format("{}: could not be read, so blocks of {} are read from there again",
                                file_->file().path(), remote_->path()));
  return false;
}

bool BlockCache::read_kept(std::int64_t block, std::span<std::byte> out) {
  std::optional<std::uint64_t> checksum;
  bool is_noted = true;
  {
    const std::scoped_lock lock(state().mutex);
    if (const auto found = state().unsynced.find(block); found != state().unsynced.end()) {
      checksum = found->second;
      is_noted = false;
    }
  }
  if (!checksum) checksum = file_->checksum_of(block);
  if (!checksum) return false;
  if (file_->read_block(block, *checksum, out)) {
    if (is_noted) believe(block);
    return true;
  }
  io::warn_of_cache(fmt::format("{}: blocks are damaged, and read from {} again",
                                file_->file().path(), remote_->path()));
  return false;
}

std::vector<std::shared_ptr<BlockFetch>> BlockCache::fetches_of(
    std::span<const std::int64_t> blocks, bool is_one_due) {
  const std::int64_t most =
      std::max<std::int64_t>(1, remote_->costs().max_read_bytes / file_->block_bytes());
  std::vector<std::shared_ptr<BlockFetch>> fetches;
  State& of_process = state();
  // One that ends with its last user takes the lock: none may, while it is held here.
  const auto find = [&of_process](std::int64_t block) -> std::weak_ptr<BlockFetch> {
    const auto found = of_process.under_way.find(block);
    return found == of_process.under_way.end() ? std::weak_ptr<BlockFetch>() : found->second;
  };
  std::shared_ptr<BlockFetch> fetch;
  const std::scoped_lock lock(of_process.mutex);
  for (std::size_t i = 0; i < blocks.size();) {
    fetch = find(blocks[i]).lock();
    if (!fetch) {
      if ((!is_one_due || !fetches.empty()) && bytes_under_way() >= kMostBytesUnderWay) break;
      std::int64_t n = 1;
      while (n < most && i + static_cast<std::size_t>(n) < blocks.size() &&
             blocks[i + static_cast<std::size_t>(n)] == blocks[i] + n &&
             find(blocks[i] + n).expired())
        ++n;
      fetch = std::make_shared<BlockFetch>(*this, blocks[i], n);
      for (std::int64_t block = blocks[i]; block < blocks[i] + n; ++block)
        of_process.under_way.insert_or_assign(block, fetch);
    }
    const std::int64_t end = fetch->first() + fetch->n_blocks();
    while (i < blocks.size() && blocks[i] < end) ++i;
    fetches.push_back(std::move(fetch));
  }
  return fetches;
}

void BlockCache::end(const BlockFetch& fetch) {
  State& of_process = state();
  const std::scoped_lock lock(of_process.mutex);
  for (std::int64_t block = fetch.first(); block < fetch.first() + fetch.n_blocks(); ++block) {
    const auto found = of_process.under_way.find(block);
    if (found != of_process.under_way.end() && found->second.expired())
      of_process.under_way.erase(found);
  }
}

void BlockCache::keep(std::int64_t first, std::span<const std::byte> bytes) {
  try {
    for (std::int64_t block = first; !bytes.empty() && is_keeping(); ++block) {
      const auto n = static_cast<std::size_t>(file_->range_of(block).length);
      keep_block(block, bytes.first(n));
      bytes = bytes.subspan(n);
    }
  } catch (const Error& error) {
    return stop_keeping(error.what());
  }
  if (is_time_to_publish()) publish();
}

void BlockCache::keep_block(std::int64_t block, std::span<const std::byte> bytes) {
  if (!file_->file().has_name()) return stop_keeping("its file was removed meanwhile");
  if (limit_ >= 0 && !take_room(folder_, std::ssize(bytes), limit_))
    return stop_keeping(
        fmt::format("what is in use there holds {}, as much as cache_bytes allows: raise it, or "
                    "clear the folder",
                    format_byte_size(limit_)));
  file_->write_block(block, bytes);
  const std::uint64_t checksum = BlockFile::checksum(bytes);
  State& of_process = state();
  const std::scoped_lock lock(of_process.mutex);
  if (of_process.unsynced.empty()) of_process.first_unsynced = Clock::now();
  of_process.unsynced.insert_or_assign(block, checksum);
}

void BlockCache::stop_keeping(const std::string& why) {
  if (!state().is_keeping.exchange(false)) return;
  io::warn_of_cache(fmt::format("what is read of {} from here on is not kept in {}: {}",
                                remote_->path(), folder_, why));
}

bool BlockCache::is_time_to_publish() {
  State& of_process = state();
  const std::scoped_lock lock(of_process.mutex);
  return !of_process.unsynced.empty() &&
         (of_process.unsynced.size() >= kMostUnsynced ||
          Clock::now() - of_process.first_unsynced >= kPublishEvery);
}

void BlockCache::publish() { publish_all(state()); }

// Blocks that are written again meanwhile are the same.
void BlockCache::publish_all(State& of_process) {
  std::unordered_map<std::int64_t, std::uint64_t> written;
  {
    const std::scoped_lock lock(of_process.mutex);
    if (of_process.is_syncing || of_process.unsynced.empty()) return;
    written = of_process.unsynced;
    of_process.is_syncing = true;
  }
  bool is_noted = false;
  try {
    file_->file().sync();
    for (const auto& [block, checksum] : written) file_->note_block(block, checksum);
    is_noted = true;
  } catch (const Error& error) {
    stop_keeping(error.what());
  }
  const std::scoped_lock lock(of_process.mutex);
  for (const auto& [block, checksum] : written) {
    of_process.unsynced.erase(block);
    if (is_noted) believe(block);
  }
  of_process.first_unsynced = Clock::now();
  of_process.is_syncing = false;
}

std::shared_ptr<BlockCache> make_block_cache(std::shared_ptr<const io::ByteSource> remote,
                                             std::unique_ptr<BlockFile> file, std::string folder,
                                             std::int64_t limit, bool is_shared) {
  std::vector<std::shared_ptr<BlockCache>> known;  // whose last user may be here: not in the lock
  const std::lock_guard lock(open_caches().mutex);
  known = known_caches();
  for (const auto& cache : known)
    if (is_shared && cache->is_of(*file, limit) && cache->is_keeping()) return cache;
  auto cache =
      std::make_shared<BlockCache>(std::move(remote), std::move(file), std::move(folder), limit);
  std::erase_if(open_caches().caches, [](const auto& each) { return each.expired(); });
  open_caches().caches.push_back(cache);
  return cache;
}

void publish_blocks() {
  std::vector<std::shared_ptr<BlockCache>> known;
  {
    const std::lock_guard lock(open_caches().mutex);
    known = known_caches();
  }
  for (const auto& cache : known) cache->publish();
}

}  // namespace cellfeed::cloud
