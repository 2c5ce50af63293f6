// FetchedRuns: the elements of ranges, whatever the shape of the array and of its chunks, whether
// they are mapped, kept for the ranges, or the whole array is.
#include "cellfeed/chunked/fetched_runs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <set>

namespace cellfeed::chunked {
namespace {

using Element = std::uint16_t;
using Shape = std::vector<std::int64_t>;
constexpr Element kFill = 60000;
constexpr std::int64_t kStoredBytes = 7;  // of each chunk that is written

std::int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Where element i of the array lies: which chunk, and which of its elements. One by one, from
// coordinates.
std::pair<std::int64_t, std::int64_t> place_of(std::int64_t i, const Shape& shape,
                                               const Shape& chunk) {
  std::int64_t number = 0, within = 0, chunks = 1, elements = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t at = i % shape[d];
    i /= shape[d];
    number += at / chunk[d] * chunks;
    within += at % chunk[d] * elements;
    chunks *= (shape[d] + chunk[d] - 1) / chunk[d];
    elements *= chunk[d];
  }
  return {number, within};
}

// Chunks in memory; every third was never written. Element i is i, modulo 2^16.
class MemoryArray final : public ChunkedArray {
 public:
  MemoryArray(const Shape& shape, const Shape& chunk, bool is_compressed)
      : ChunkedArray({.path = "memory",
                      .name = "array",
                      .key = 0,
                      .element_bytes = sizeof(Element),
                      .shape = shape,
                      .chunk_shape = chunk,
                      .is_mapped = !is_compressed,
                      .fill = fill_bytes()}),
        chunks_(static_cast<std::size_t>(n_chunks()),
                std::vector<Element>(static_cast<std::size_t>(chunk_elements()), 1)) {
    for (std::int64_t i = 0; i < length(); ++i) {
      const auto [number, within] = place_of(i, shape, chunk);
      chunks_[number][within] = static_cast<Element>(i);
    }
  }
  static std::vector<std::byte> fill_bytes() {
    std::vector<std::byte> bytes(sizeof(kFill));
    std::memcpy(bytes.data(), &kFill, sizeof(kFill));
    return bytes;
  }
  std::int64_t inflating_bytes() const override { return is_mapped() ? 0 : chunk_bytes(); }
  void locate_chunks(std::span<const std::int64_t> chunks) const override {
    for (const std::int64_t chunk : chunks) {
      ASSERT_LT(chunk, n_chunks());
      const bool is_new = located_.insert(chunk).second;
      EXPECT_TRUE(is_new || !is_mapped()) << "located again";
    }
  }
  bool is_located(std::int64_t chunk) const override { return located_.contains(chunk); }
  io::ByteRange stored_range(std::int64_t chunk) const override {
    EXPECT_TRUE(is_located(chunk));
    return {chunk * kStoredBytes, chunk % 3 == 2 ? 0 : kStoredBytes};
  }

 private:
  void inflate_written(std::int64_t chunk, std::span<const std::byte>,
                       std::span<std::byte> out) const override {
    std::memcpy(out.data(), chunks_[chunk].data(), out.size());
  }
  const std::byte* mapped(std::int64_t chunk) const override {
    if (stored_range(chunk).length == 0) return nullptr;
    return reinterpret_cast<const std::byte*>(chunks_[chunk].data());
  }

  std::vector<std::vector<Element>> chunks_;
  mutable std::set<std::int64_t> located_;
};

std::vector<Element> expected(const EntryRange& range, const Shape& shape, const Shape& chunk) {
  std::vector<Element> elements;
  for (std::int64_t i = range.begin; i < range.end; ++i)
    elements.push_back(place_of(i, shape, chunk).first % 3 == 2 ? kFill : static_cast<Element>(i));
  return elements;
}

std::vector<Element> elements_of(const FetchedRuns& runs, std::size_t i) {
  std::vector<RowPiece> pieces;
  runs.append_pieces(i, pieces);
  std::vector<Element> elements;
  for (const RowPiece& piece : pieces) {
    EXPECT_GT(piece.length, 0);
    for (std::int64_t k = 0; k < piece.length; ++k) {
      Element element;
      std::memcpy(&element, piece.data + k * static_cast<std::int64_t>(sizeof(element)),
                  sizeof(element));
      elements.push_back(element);
    }
  }
  return elements;
}

// In any order, repeated, some empty, each inside one line.
std::vector<EntryRange> random_ranges(const Shape& shape, std::mt19937& random) {
  std::vector<EntryRange> ranges;
  const std::int64_t line = shape.back();
  for (int i = 0; i < 20; ++i) {
    const std::int64_t begin_of_line =
        static_cast<std::int64_t>(random()) % (product(shape) / line) * line;
    std::int64_t begin = static_cast<std::int64_t>(random()) % (line + 1);
    std::int64_t end = static_cast<std::int64_t>(random()) % (line + 1);
    if (i % 4 == 0) begin = 0, end = line;
    ranges.push_back({begin_of_line + std::min(begin, end), begin_of_line + std::max(begin, end)});
  }
  return ranges;
}

// bytes_read: of each chunk once, where nothing is in the cache.
void expect_runs(const MemoryArray& array, const ChunkCache& cache,
                 const std::vector<EntryRange>& ranges, const Shape& shape, const Shape& chunk) {
  FetchedRuns runs(array, cache, ranges);
  FetchedRuns* all[] = {&runs};
  InflatingTasks tasks(all, nullptr);
  for (std::int64_t task = tasks.size(); task-- > 0;) tasks.run(task);
  EXPECT_EQ(tasks.bytes_read() % kStoredBytes, 0);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    ASSERT_EQ(elements_of(runs, i), expected(ranges[i], shape, chunk));
  EXPECT_LE(runs.bytes_held(), plan_runs(array, cache, ranges).bytes_held);
}

TEST(FetchedRunsTest, HoldTheElementsOfRangesInArraysOfAnyShape) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Shape shape, chunk;
    for (int d = 0; d <= round % 4; ++d) {
      shape.push_back(1 + static_cast<std::int64_t>(random() % 12));
      chunk.push_back(1 + static_cast<std::int64_t>(random() % 14));
    }
    SCOPED_TRACE(round);
    const auto ranges = random_ranges(shape, random);
    const MemoryArray plain(shape, chunk, false), compressed(shape, chunk, true);
    const std::vector<CachedArray> arrays{{compressed.n_chunks(), compressed.chunk_bytes()}};
    expect_runs(plain, ChunkCache(0), ranges, shape, chunk);
    expect_runs(compressed, ChunkCache(0, arrays), ranges, shape, chunk);
    const std::int64_t all_bytes = compressed.n_chunks() * compressed.chunk_bytes();
    for (const std::int64_t capacity : {all_bytes, all_bytes / 2}) {
      const ChunkCache cache(capacity, arrays);
      for (int again = 0; again < 2; ++again) expect_runs(compressed, cache, ranges, shape, chunk);
    }
  }
}

TEST(FetchedRunsTest, InflateEachChunkOnceAndPlanForIt) {
  const Shape shape{10, 30}, chunk{4, 8};
  const MemoryArray array(shape, chunk, true);
  const ChunkCache cache(0, {{array.n_chunks(), array.chunk_bytes()}});
  // Rows 4, 5 and 4 again: the second four chunks, 4 to 7, of which 5 was never written.
  const std::vector<EntryRange> ranges{{120, 150}, {150, 180}, {120, 150}};
  const RunsPlan plan = plan_runs(array, cache, ranges);
  EXPECT_EQ(plan.bytes_inflated, 4 * array.chunk_bytes());
  EXPECT_EQ(plan.bytes_held, 3 * 30 * static_cast<std::int64_t>(sizeof(Element)));
  FetchedRuns runs(array, cache, ranges);
  FetchedRuns* all[] = {&runs};
  InflatingTasks tasks(all, nullptr);
  ASSERT_EQ(tasks.size(), 4);
  for (std::int64_t task = 0; task < 4; ++task) tasks.run(task);
  EXPECT_EQ(tasks.bytes_read(), 3 * kStoredBytes);
  EXPECT_EQ(runs.bytes_held(), plan.bytes_held);
}

// Close together, far apart, and on the borders of 64.
TEST(FetchedRunsTest, AsksForChunksInAscendingOrderWhereverTheyLie) {
  const MemoryArray array({40'000}, {4}, true);
  const ChunkCache cache(0, {{array.n_chunks(), array.chunk_bytes()}});
  std::mt19937 random(3);
  for (const std::int64_t span : {40, 300, 40'000}) {
    for (int n : {2, 20, 200}) {
      std::vector<EntryRange> ranges;
      std::set<std::int64_t> wanted;
      for (int i = 0; i < n; ++i) {
        const std::int64_t begin = static_cast<std::int64_t>(random()) % span;
        ranges.push_back({begin, std::min<std::int64_t>(begin + 6, array.length())});
        for (std::int64_t at = begin; at < ranges.back().end; ++at) wanted.insert(at / 4);
      }
      FetchedRuns runs(array, cache, ranges);
      std::vector<std::int64_t> asked;
      for (const std::size_t slot : runs.slots_to_fill())
        asked.push_back(runs.stored_range(slot).offset / kStoredBytes);
      ASSERT_EQ(asked, std::vector<std::int64_t>(wanted.begin(), wanted.end()));
    }
  }
}

TEST(ChunkedArrayTest, HasNoChunksWhereADimensionIsEmpty) {
  const MemoryArray array({std::int64_t{1} << 40, std::int64_t{1} << 40, 0}, {1, 1, 1}, false);
  EXPECT_EQ(array.length(), 0);
  EXPECT_EQ(array.n_chunks(), 0);
}

}  // namespace
}  // namespace cellfeed::chunked
