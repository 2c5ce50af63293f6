#include "cellfeed/chunked/fetched_runs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

namespace cellfeed::chunked {
namespace {

// Ascending, each once. Chunks of random rows are many and close together: a bit for each in
// between takes less memory than the numbers, and a tenth of the time that sorting does.
void sort_chunks(std::vector<std::int64_t>& chunks) {
  if (std::ranges::adjacent_find(chunks, std::ranges::greater_equal()) == chunks.end()) return;
  const auto [first, last] = std::ranges::minmax(chunks);
  const auto n_words = static_cast<std::size_t>((last - first) / 64 + 1);
  if (n_words > chunks.size()) {
    std::ranges::sort(chunks);
    chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
    return;
  }
  std::vector<std::uint64_t> bits(n_words);
  for (const std::int64_t chunk : chunks)
    bits[static_cast<std::size_t>((chunk - first) / 64)] |= std::uint64_t{1}
                                                            << ((chunk - first) % 64);
  chunks.clear();
  for (std::size_t word = 0; word < n_words; ++word)
    for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1)
      chunks.push_back(first + static_cast<std::int64_t>(word) * 64 + std::countr_zero(rest));
}

// The chunks that hold any of the ranges and that the caller wants, ascending, each once.
template <typename IsWanted>
std::vector<std::int64_t> chunks_of(const ChunkedArray& array, std::span<const EntryRange> ranges,
                                    IsWanted&& is_wanted) {
  std::vector<std::int64_t> chunks;
  for (const EntryRange& range : ranges)
    array.for_each_part(range, [&](const ChunkPart& part) {
      if ((chunks.empty() || chunks.back() != part.chunk) && is_wanted(part.chunk))
        chunks.push_back(part.chunk);
    });
  sort_chunks(chunks);
  return chunks;
}

constexpr auto kAll = [](std::int64_t) { return true; };

// Of an array that is read where it lies: what it needs to know, the first time.
void locate_new_chunks(const ChunkedArray& array, std::span<const EntryRange> ranges) {
  if (array.contiguous() != nullptr) return;
  const auto is_new = [&](std::int64_t chunk) { return !array.is_located(chunk); };
  const std::vector<std::int64_t> chunks = chunks_of(array, ranges, is_new);
  if (!chunks.empty()) array.locate_chunks(chunks);
}

}  // namespace

FetchedRuns::FetchedRuns(const ChunkedArray& array, const ChunkCache& cache,
                         std::span<const EntryRange> ranges)
    : array_(array), cache_(cache), ranges_(ranges) {
  if (is_mapped()) {
    locate_new_chunks(array, ranges);
    return;
  }
  chunks_ = chunks_of(array_, ranges, kAll);
  array_.locate_chunks(chunks_);
  whole_ = cache.whole(array_.key());
}

std::vector<std::size_t> FetchedRuns::slots_to_fill() {
  std::vector<std::size_t> slots;
  if (is_mapped()) return slots;
  for (std::size_t slot = 0; slot < chunks_.size(); ++slot)
    if (!whole_ || !whole_->has(chunks_[slot])) slots.push_back(slot);
  if (!slots.empty()) list_users();
  return slots;
}

bool FetchedRuns::is_cached(std::size_t slot) const {
  return !whole_ && cache_.find({array_.key(), chunks_[slot]}) != nullptr;
}

std::int64_t FetchedRuns::fill(std::size_t slot, std::span<const std::byte> stored) {
  const std::int64_t chunk = chunks_[slot];
  if (whole_) {
    const bool is_read =
        whole_->fill(chunk, [&](std::span<std::byte> out) { array_.inflate(chunk, out, stored); });
    return is_read ? stored_range(slot).length : 0;
  }
  if (!array_.is_written(chunk)) {
    fill_elements(slot);
    return 0;
  }
  if (const auto cached = cache_.find({array_.key(), chunk})) {
    copy_elements(slot, *cached);
    return 0;
  }
  auto inflated = cache_.make_chunk(static_cast<std::size_t>(array_.chunk_bytes()));
  array_.inflate(chunk, inflated->bytes.span(), stored);
  copy_elements(slot, *inflated);
  cache_.insert({array_.key(), chunk}, std::move(inflated));
  return stored_range(slot).length;
}

void FetchedRuns::append_pieces(std::size_t i, std::vector<RowPiece>& pieces) const {
  const EntryRange& range = ranges_[i];
  if (is_mapped()) return array_.append_pieces(range, pieces);
  if (range.begin >= range.end) return;
  const std::int64_t width = array_.element_bytes();
  if (!whole_) {
    pieces.push_back({kept_.data() + starts_[i] * width, range.end - range.begin});
    return;
  }
  const std::byte* data = whole_->bytes();
  // Along one dimension chunks follow one another without a gap.
  if (array_.shape().size() == 1) {
    pieces.push_back({data + range.begin * width, range.end - range.begin});
    return;
  }
  array_.for_each_part(range, [&](const ChunkPart& part) {
    pieces.push_back({data + part.chunk * array_.chunk_bytes() + part.first * width, part.length});
  });
}

// Calls visit(part of the slot's chunk, where it goes).
template <typename Visit>
void FetchedRuns::for_each_use(std::size_t slot, Visit&& visit) {
  for (const std::size_t i : users(slot)) {
    const auto [part, begin] = array_.part_in(ranges_[i], chunks_[slot]);
    visit(part, kept_.data() + (starts_[i] + begin) * array_.element_bytes());
  }
}

void FetchedRuns::copy_elements(std::size_t slot, const InflatedChunk& chunk) {
  const std::int64_t width = array_.element_bytes();
  for_each_use(slot, [&](const ChunkPart& part, std::byte* to) {
    std::memcpy(to, chunk.bytes.data() + part.first * width,
                static_cast<std::size_t>(part.length * width));
  });
}

void FetchedRuns::fill_elements(std::size_t slot) {
  for_each_use(slot, [&](const ChunkPart& part, std::byte* to) { array_.fill(part.length, to); });
}

void FetchedRuns::list_users() {
  starts_.reserve(ranges_.size());
  std::int64_t total = 0;
  first_user_.assign(chunks_.size() + 1, 0);
  // Chunks of one range have numbers that follow one another.
  const auto for_each_slot = [&](std::size_t i, const auto& visit) {
    const EntryRange& range = ranges_[i];
    if (range.begin >= range.end) return;
    auto slot = static_cast<std::size_t>(
        std::lower_bound(chunks_.begin(), chunks_.end(), array_.first_chunk(range)) -
        chunks_.begin());
    array_.for_each_part(range, [&](const ChunkPart&) { visit(slot++); });
  };
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    starts_.push_back(total);
    total += ranges_[i].end - ranges_[i].begin;
    for_each_slot(i, [&](std::size_t slot) { ++first_user_[slot + 1]; });
  }
  for (std::size_t slot = 0; slot < chunks_.size(); ++slot)
    first_user_[slot + 1] += first_user_[slot];
  users_.resize(first_user_.back());
  std::vector<std::size_t> next(first_user_.begin(), first_user_.end() - 1);
  for (std::size_t i = 0; i < ranges_.size(); ++i)
    for_each_slot(i, [&](std::size_t slot) { users_[next[slot]++] = i; });
  if (!whole_) kept_.reset(static_cast<std::size_t>(total * array_.element_bytes()));
}

RunsPlan plan_runs(const ChunkedArray& array, const ChunkCache& cache,
                   std::span<const EntryRange> ranges) {
  RunsPlan plan;
  if (array.is_mapped()) return plan;
  const std::int64_t n_chunks = std::ssize(chunks_of(array, ranges, kAll));
  plan.bytes_inflated = n_chunks * array.chunk_bytes();
  // Stored, a chunk takes no more than this, whatever its filters.
  if (const io::ByteSource* source = array.reads())
    plan.bytes_held =
        io::RangeReads::planned_bytes(*source, n_chunks, n_chunks * array.chunk_bytes());
  if (cache.keeps_whole()) return plan;
  for (const EntryRange& range : ranges)
    plan.bytes_held += (range.end - range.begin) * array.element_bytes();
  return plan;
}

InflatingTasks::InflatingTasks(std::span<FetchedRuns* const> runs, const io::ReadAhead* ahead) {
  for (FetchedRuns* array : runs)
    for (const std::size_t slot : array->slots_to_fill())
      tasks_.push_back({.array = array, .slot = slot});
  begin_reads();
  if (ahead != nullptr && !tasks_.empty()) read_ahead(*ahead);
}

void InflatingTasks::begin_reads() {
  for (Task& task : tasks_) {
    const io::ByteSource* source = task.array->array().reads();
    if (source == nullptr || task.array->is_cached(task.slot)) continue;
    const io::ByteRange range = task.array->stored_range(task.slot);
    if (range.length > 0) task.read = reads_.add(*source, range);
  }
  reads_.begin();
}

void InflatingTasks::read_ahead(const io::ReadAhead& ahead) const {
  ahead.ask(size(), [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
    const Task& task = tasks_[static_cast<std::size_t>(i)];
    if (!task.array->is_cached(task.slot)) ranges.push_back(task.array->stored_range(task.slot));
  });
}

void InflatingTasks::run(std::int64_t number) {
  const Task& task = tasks_[static_cast<std::size_t>(number)];
  bytes_read_ += task.array->fill(
      task.slot, task.read ? reads_.bytes(*task.read) : std::span<const std::byte>());
}

std::int64_t read_runs_ahead(std::span<FetchedRuns* const> runs, std::int64_t n_ranges,
                             const io::ReadAhead& ahead, std::span<const std::byte> map) {
  std::vector<const FetchedRuns*> mapped;
  for (const FetchedRuns* array : runs)
    if (array->is_mapped()) mapped.push_back(array);
  if (mapped.empty() || n_ranges == 0) return 0;
  std::vector<RowPiece> pieces;
  // Item i is range i of the first array, then of the second.
  return ahead.ask(n_ranges * std::ssize(mapped), [&](std::int64_t item,
                                                      std::vector<io::ByteRange>& ranges) {
    const FetchedRuns& array = *mapped[item / n_ranges];
    pieces.clear();
    array.append_pieces(static_cast<std::size_t>(item % n_ranges), pieces);
    for (const RowPiece& piece : pieces)
      if (piece.data >= map.data() && piece.data < map.data() + map.size())
        ranges.push_back({piece.data - map.data(), piece.length * array.array().element_bytes()});
  });
}

}  // namespace cellfeed::chunked
