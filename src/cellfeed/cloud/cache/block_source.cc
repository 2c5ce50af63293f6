#include "cellfeed/cloud/cache/block_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/io/read_buffer.h"

namespace cellfeed::cloud {
namespace {

// Requests that one thread takes at a time, so that handing them out costs less than reading them.
constexpr std::int64_t kReadsPerTurn = 8;

struct BlockPart {
  std::int64_t block = 0;
  std::int64_t offset = 0;  // in the block
  std::span<std::byte> out;
};

// Fills requests: those whose blocks are all there at once, of the others what is to be fetched
// while somebody waits. Where nothing is kept any more, they are asked for as they are.
class BlockReads final : public io::PendingReads {
 public:
  BlockReads(std::shared_ptr<BlockCache> cache, exec::ThreadPool& pool)
      : cache_(std::move(cache)), pool_(pool) {}

  void begin(std::span<const io::ReadRequest> requests) {
    const std::vector<io::ReadRequest> left = read_believed(requests);
    read_kept_blocks(split(left));
    if (!missing_.empty() && !cache_->will_keep())
      begin_direct(left);
    else
      begin_fetches();
  }
  bool is_done() const { return fetches_.empty() && !direct_; }

  void wait() override {
    if (error_) std::rethrow_exception(error_);
    try {
      if (direct_) direct_->wait();
      while (!fetches_.empty()) {
        const std::shared_ptr<BlockFetch> fetch = std::move(fetches_.front());
        fetches_.pop_front();
        const std::span<const std::byte> bytes = fetch->wait();
        for (std::int64_t i = 0; i < fetch->n_blocks(); ++i) {
          const io::ByteRange range = cache_->file().range_of(fetch->first() + i);
          const std::int64_t skipped =
              range.offset - cache_->file().range_of(fetch->first()).offset;
          fill(fetch->first() + i, bytes.subspan(static_cast<std::size_t>(skipped),
                                                 static_cast<std::size_t>(range.length)));
        }
        begin_fetches();
      }
    } catch (...) {
      error_ = std::current_exception();
      fetches_.clear();
      throw;
    }
  }

 private:
  std::int64_t block_of(std::int64_t offset) const { return offset / cache_->file().block_bytes(); }

  bool is_believed(const io::ReadRequest& request) const {
    const std::int64_t last = block_of(request.offset + std::ssize(request.out) - 1);
    for (std::int64_t block = block_of(request.offset); block <= last; ++block)
      if (!cache_->is_believed(block)) return false;
    return true;
  }

  // Those that are left.
  std::vector<io::ReadRequest> read_believed(std::span<const io::ReadRequest> requests) const {
    std::vector<io::ReadRequest> local, left;
    for (const io::ReadRequest& request : requests)
      if (!request.out.empty()) (is_believed(request) ? local : left).push_back(request);
    std::vector<char> is_read(local.size());
    const std::int64_t n = std::ssize(local);
    pool_.parallel_for((n + kReadsPerTurn - 1) / kReadsPerTurn, [&](std::int64_t turn) {
      const std::int64_t end = std::min(n, (turn + 1) * kReadsPerTurn);
      for (std::int64_t i = turn * kReadsPerTurn; i < end; ++i) {
        const io::ReadRequest& request = local[static_cast<std::size_t>(i)];
        is_read[static_cast<std::size_t>(i)] =
            cache_->read_believed(request.offset, request.out) ? 1 : 0;
      }
    });
    for (std::size_t i = 0; i < local.size(); ++i)
      if (is_read[i] == 0) left.push_back(local[i]);
    return left;
  }

  // Has parts_, and returns the blocks that they are of, ascending.
  std::vector<std::int64_t> split(const std::vector<io::ReadRequest>& requests) {
    for (const auto& [offset, out] : requests) {
      for (std::size_t done = 0; done < out.size();) {
        const std::int64_t at = offset + static_cast<std::int64_t>(done);
        const io::ByteRange range = cache_->file().range_of(block_of(at));
        const std::size_t n =
            std::min(out.size() - done, static_cast<std::size_t>(range.offset + range.length - at));
        parts_.push_back({block_of(at), at - range.offset, out.subspan(done, n)});
        done += n;
      }
    }
    std::ranges::stable_sort(parts_, {}, &BlockPart::block);
    std::vector<std::int64_t> blocks;
    for (const BlockPart& part : parts_)
      if (blocks.empty() || blocks.back() != part.block) blocks.push_back(part.block);
    return blocks;
  }

  // Has missing_, the blocks that are not there.
  void read_kept_blocks(const std::vector<std::int64_t>& blocks) {
    std::vector<char> is_read(blocks.size());
    pool_.parallel_for(std::ssize(blocks), [&](std::int64_t i) {
      const std::int64_t block = blocks[static_cast<std::size_t>(i)];
      const auto n = static_cast<std::size_t>(cache_->file().range_of(block).length);
      const io::ReadBuffer buffer(n);
      const std::span bytes(buffer.data(), n);
      if (!cache_->read_kept(block, bytes)) return;
      fill(block, bytes);
      is_read[static_cast<std::size_t>(i)] = 1;
    });
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (is_read[i] == 0) missing_.push_back(blocks[i]);
  }

  void begin_direct(const std::vector<io::ReadRequest>& requests) {
    std::vector<io::ReadRequest> direct;
    for (const io::ReadRequest& request : requests) {
      const auto first = std::ranges::lower_bound(missing_, block_of(request.offset));
      if (first != missing_.end() &&
          *first <= block_of(request.offset + std::ssize(request.out) - 1))
        direct.push_back(request);
    }
    direct_ = cache_->remote().begin_read_many(direct);
  }

  void fill(std::int64_t block, std::span<const std::byte> bytes) const {
    for (const BlockPart& part : std::ranges::equal_range(parts_, block, {}, &BlockPart::block))
      std::ranges::copy(bytes.subspan(static_cast<std::size_t>(part.offset), part.out.size()),
                        part.out.begin());
  }

  // As many as there is memory for; at least one where none is under way.
  void begin_fetches() {
    if (n_asked_ == missing_.size()) return;
    const auto left = std::span(missing_).subspan(n_asked_);
    for (auto& fetch : cache_->fetches_of(left, fetches_.empty())) {
      const std::int64_t end = fetch->first() + fetch->n_blocks();
      while (n_asked_ < missing_.size() && missing_[n_asked_] < end) ++n_asked_;
      fetch->begin();
      fetches_.push_back(std::move(fetch));
    }
  }

  const std::shared_ptr<BlockCache> cache_;
  exec::ThreadPool& pool_;
  std::vector<BlockPart> parts_;  // ascending by block
  std::vector<std::int64_t> missing_;
  std::size_t n_asked_ = 0;  // of missing_
  std::deque<std::shared_ptr<BlockFetch>> fetches_;
  std::unique_ptr<io::PendingReads> direct_;
  std::exception_ptr error_;
};

class BlockSource final : public io::ByteSource {
 public:
  BlockSource(std::shared_ptr<BlockCache> cache, int threads)
      : cache_(std::move(cache)),
        pool_(exec::shared_pool(threads)),
        backend_(fmt::format("blocks of {}", cache_->remote().backend_name())) {}

  const std::string& path() const override { return cache_->remote().path(); }
  std::int64_t size() const override { return cache_->remote().size(); }
  bool is_unchanged() const override { return cache_->remote().is_unchanged(); }
  std::string_view backend_name() const override { return backend_; }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    const io::ReadRequest request{offset, out};
    read_many({&request, 1});
  }
  void read_many(std::span<const io::ReadRequest> requests) const override {
    if (const auto pending = begin_read_many(requests)) pending->wait();
  }
  std::unique_ptr<io::PendingReads> begin_read_many(
      std::span<const io::ReadRequest> requests) const override {
    io::check_requests(*this, requests);
    auto reads = std::make_unique<BlockReads>(cache_, *pool_);
    reads->begin(requests);
    return reads->is_done() ? nullptr : std::move(reads);
  }
  // What lies between two ranges comes with their blocks or is on the disk: no gap is worth more
  // than there.
  io::ReadCosts costs() const override {
    io::ReadCosts costs = cache_->remote().costs();
    if (!cache_->is_keeping()) return costs;
    costs.gap_bytes = io::ReadCosts{}.gap_bytes;
    costs.in_flight_bytes = cache_->is_full() ? io::ReadCosts{}.in_flight_bytes
                                              : std::min(costs.in_flight_bytes, kMostBytesUnderWay);
    return costs;
  }

 private:
  const std::shared_ptr<BlockCache> cache_;
  const std::shared_ptr<exec::ThreadPool> pool_;
  const std::string backend_;
};

}  // namespace

std::unique_ptr<io::ByteSource> make_block_source(std::shared_ptr<BlockCache> cache, int threads) {
  return std::make_unique<BlockSource>(std::move(cache), threads);
}

}  // namespace cellfeed::cloud
