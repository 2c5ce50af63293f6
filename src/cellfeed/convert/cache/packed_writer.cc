#include "cellfeed/convert/cache/packed_writer.h"

#include <chrono>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/packed_log.h"
#include "cellfeed/convert/cache/packed_work.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_start.h"

namespace cellfeed::convert {
namespace {

// Batches wait for the disk for so small a part of the time: what does not fit then is not kept.
constexpr std::int64_t kPartWaited = 20;
constexpr std::int64_t kMostSegments = 64;
constexpr std::int64_t kWorthWriting = 1 << 20;
// Together 16 MiB at most.
constexpr std::size_t kMostSpares = 32, kSpareBytes = 512 << 10;

}  // namespace

PackedWriter::PackedWriter(PackedLog& log, std::int64_t n_rows)
    : log_(log),
      claimed_(std::make_unique<std::atomic<std::uint64_t>[]>(
          static_cast<std::size_t>(n_rows + 63) / 64)),
      spares_(kMostSpares) {
  thread_ = exec::start_thread([this](const std::stop_token&) { run(); });
}

PackedWriter::~PackedWriter() {
  stop_.request_stop();
  thread_.join();
}

bool PackedWriter::claim(std::int64_t row) {
  if (has_failed_.load(std::memory_order_relaxed)) return false;
  const std::uint64_t bit = std::uint64_t{1} << (row & 63);
  return (claimed_[row >> 6].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

void PackedWriter::give_up(std::span<const std::uint64_t> rows) {
  for (const std::uint64_t row : rows)
    claimed_[row >> 6].fetch_and(~(std::uint64_t{1} << (row & 63)), std::memory_order_relaxed);
}

void PackedWriter::keep(std::vector<std::uint64_t> rows, format::shard::EncodedRows encoded) {
  Piece piece{std::move(rows), std::move(encoded)};
  std::unique_lock lock(mutex_);
  if (!wait_for_room(lock, piece.bytes()) || has_failed_ || is_over_) {
    lock.unlock();
    return give_up(piece.rows);
  }
  queued_bytes_ += piece.bytes();
  queue_.push_back(std::move(piece));
  // The disk is told of more than a few rows at a time; what is left is written when it is idle.
  if (queued_bytes_ < kWorthWriting) return;
  lock.unlock();
  changed_.notify_all();
}

bool PackedWriter::wait_for_room(std::unique_lock<std::mutex>& lock, std::int64_t bytes) {
  const auto has_room = [&] {
    return queue_.empty() || queued_bytes_ + bytes <= log_.options_.queue_bytes;
  };
  if (has_room()) return true;
  const auto begin = Clock::now();
  const Clock::duration allowed = (begin - begun_) / kPartWaited - waited_;
  const bool is_there =
      allowed > Clock::duration::zero() && changed_.wait_for(lock, allowed, has_room);
  waited_ += Clock::now() - begin;
  return is_there;
}

void PackedWriter::flush() {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = ++flushes_wanted_;
  changed_.notify_all();
  exec::wait_unless_stopped(changed_, lock, [&] { return is_over_ || flushes_done_ >= wanted; });
}

void PackedWriter::run() {
  PackedWork work(stop_);
  work_ = &work;
  const std::stop_token stop = stop_.get_token();
  const std::chrono::milliseconds idle(log_.options_.idle_ms);
  std::unique_lock lock(mutex_);
  const auto has_work = [&] {
    return queued_bytes_ >= kWorthWriting || flushes_wanted_ > flushes_done_;
  };
  while (true) {
    const bool is_late = !changed_.wait_for(lock, stop, idle, has_work);
    const bool is_idle = is_late && queue_.empty();
    write_queue(lock);
    const std::uint64_t wanted = flushes_wanted_;
    const bool is_last = stop.stop_requested();
    if (is_last || is_idle || wanted > flushes_done_) {
      lock.unlock();
      close_segment();
      lock.lock();
      flushes_done_ = wanted;
      changed_.notify_all();
    }
    if (is_last && queue_.empty()) {
      is_over_ = true;
      changed_.notify_all();
      return;
    }
  }
}

void PackedWriter::write_queue(std::unique_lock<std::mutex>& lock) {
  while (!queue_.empty()) {
    Piece piece = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= piece.bytes();
    lock.unlock();
    changed_.notify_all();
    write(std::move(piece));
    lock.lock();
  }
}

bool PackedWriter::is_full() const {
  const std::int64_t enough = log_.matrix_.n_rows / kMostSegments;
  return open_->bytes() >= log_.options_.segment_bytes && open_->n_rows() >= enough;
}

void PackedWriter::write(Piece piece) {
  if (has_failed_) return;
  try {
    if (!open_) open_.emplace(log_.folder().directory(), log_.matrix_);
    open_rows_.insert(open_rows_.end(), piece.rows.begin(), piece.rows.end());
    open_->append(piece.rows, piece.encoded);
    if (piece.encoded.bytes.capacity() <= kSpareBytes) spares_.give(std::move(piece.encoded));
    if (is_full()) close_segment();
  } catch (const std::exception& error) {
    fail(error);
  }
}

void PackedWriter::require_same_file() {
  const PackedWork::Question question(*work_);
  log_.require_same_file();
}

void PackedWriter::close_segment() {
  if (!open_ || open_->n_rows() == 0) return;
  try {
    require_same_file();
    const std::string name = open_->finish();
    open_.reset();
    if (auto segment =
            open_segment(log_.folder().directory(), name, log_.matrix_, log_.options_.verifies)) {
      const std::lock_guard lock(log_.mutex_);
      log_.add(std::move(*segment));
    }
    give_up(open_rows_);
    open_rows_.clear();
  } catch (const std::exception& error) {
    fail(error);
  }
}

void PackedWriter::fail(const std::exception& error) {
  has_failed_ = true;
  open_.reset();
  log_.warn(fmt::format("{}: its rows are no longer kept in '{}', and are read from the file: {}",
                        log_.version_.path, log_.place_.folder(), error.what()));
}

}  // namespace cellfeed::convert
