// Rows fetched from a CsrMatrix.
#include "cellfeed/format/h5ad/csr_rows.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace cellfeed::format::h5ad {
namespace {

constexpr std::int64_t kPrefetchRows = 2;  // rows whose first lines are asked for ahead of decoding
constexpr std::int64_t kPrefetchBytes = 8 * 64;  // per piece; the hardware streams the rest

// The chunks that hold any of the ranges, ascending, each once.
std::vector<std::int64_t> chunks_of(const StoredArray& array, std::span<const EntryRange> ranges) {
  std::vector<std::int64_t> chunks;
  const std::int64_t step = array.chunk_elements();
  for (const EntryRange& range : ranges)
    if (range.begin < range.end)
      for (std::int64_t chunk = range.begin / step; chunk <= (range.end - 1) / step; ++chunk)
        if (chunks.empty() || chunks.back() != chunk) chunks.push_back(chunk);
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

// One of the two arrays of the fetched rows.
class ArrayRows {
 public:
  ArrayRows(const StoredArray& array, std::span<const EntryRange> ranges) : array_(array) {
    if (array_.is_compressed()) {
      chunks_ = chunks_of(array_, ranges);
      inflated_.resize(chunks_.size());
      for (const std::int64_t chunk : chunks_)
        array_.locate(chunk * array_.chunk_elements(), chunk * array_.chunk_elements() + 1);
    } else {
      for (const EntryRange& range : ranges) array_.locate(range.begin, range.end);
    }
  }

  // Takes what the cache holds; the slots left to inflate.
  std::vector<std::size_t> take_cached(const ChunkCache& cache) {
    std::vector<std::size_t> missing;
    for (std::size_t slot = 0; slot < chunks_.size(); ++slot) {
      inflated_[slot] = cache.find({array_.number(), chunks_[slot]});
      if (!inflated_[slot]) missing.push_back(slot);
    }
    return missing;
  }
  // Thread-safe for different slots. Returns the bytes read.
  std::int64_t inflate(std::size_t slot, const ChunkCache& cache) {
    inflated_[slot] = array_.inflate(chunks_[slot]);
    cache.insert({array_.number(), chunks_[slot]}, inflated_[slot]);
    return array_.stored_bytes(chunks_[slot]);
  }

  void append_pieces(const EntryRange& range, std::vector<RowPiece>& pieces) const {
    if (!array_.is_compressed()) return array_.append_pieces(range.begin, range.end, pieces);
    const std::int64_t step = array_.chunk_elements();
    const auto width = static_cast<std::int64_t>(dtype_bytes(array_.dtype()));
    std::int64_t begin = range.begin;
    if (begin >= range.end) return;
    auto slot = std::lower_bound(chunks_.begin(), chunks_.end(), begin / step) - chunks_.begin();
    for (; begin < range.end; ++slot) {
      const std::int64_t within = begin % step;
      const std::int64_t length = std::min(range.end - begin, step - within);
      pieces.push_back({inflated_[slot]->bytes.get() + within * width, length});
      begin += length;
    }
  }

  std::int64_t bytes_held() const { return std::ssize(chunks_) * array_.chunk_bytes(); }
  bool is_mapped() const { return !array_.is_compressed(); }

 private:
  const StoredArray& array_;
  std::vector<std::int64_t> chunks_;
  std::vector<std::shared_ptr<const InflatedChunk>> inflated_;
};

class CsrRows final : public FetchedRows {
 public:
  CsrRows(const CsrMatrix& matrix, std::vector<std::int64_t> rows, std::vector<EntryRange> ranges)
      : matrix_(matrix),
        rows_(std::move(rows)),
        ranges_(std::move(ranges)),
        indices_(matrix.indices(), ranges_),
        values_(matrix.data(), ranges_) {
    for (const EntryRange& range : ranges_) n_entries_ += range.end - range.begin;
  }

  void inflate(const ChunkCache& cache, const ParallelFor& parallel);

  std::int64_t n_rows() const override { return std::ssize(rows_); }
  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < ranges_.size(); ++i) nnz[i] = ranges_[i].end - ranges_[i].begin;
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrSink& sink) const override;
  std::int64_t bytes_read() const override {
    return bytes_inflated_ + (indices_.is_mapped() ? bytes_of(matrix_.indices()) : 0) +
           (values_.is_mapped() ? bytes_of(matrix_.data()) : 0);
  }
  std::int64_t bytes_used() const override {
    return bytes_of(matrix_.indices()) + bytes_of(matrix_.data());
  }
  std::int64_t bytes_held() const override { return indices_.bytes_held() + values_.bytes_held(); }

 private:
  std::int64_t bytes_of(const StoredArray& array) const {
    return n_entries_ * static_cast<std::int64_t>(dtype_bytes(array.dtype()));
  }
  void prefetch(const EntryRange& range, std::vector<RowPiece>& pieces) const;

  const CsrMatrix& matrix_;
  std::vector<std::int64_t> rows_;
  std::vector<EntryRange> ranges_;
  ArrayRows indices_;
  ArrayRows values_;
  std::int64_t n_entries_ = 0;
  std::int64_t bytes_inflated_ = 0;
};

void CsrRows::inflate(const ChunkCache& cache, const ParallelFor& parallel) {
  std::vector<std::pair<ArrayRows*, std::size_t>> tasks;
  for (ArrayRows* array : {&indices_, &values_})
    for (const std::size_t slot : array->take_cached(cache)) tasks.emplace_back(array, slot);
  if (tasks.empty()) return;
  std::atomic<std::int64_t> bytes{0};
  parallel(std::ssize(tasks), [&](std::int64_t i) {
    const auto& [array, slot] = tasks[i];
    bytes += array->inflate(slot, cache);
  });
  bytes_inflated_ = bytes.load();
}

void CsrRows::prefetch(const EntryRange& range, std::vector<RowPiece>& pieces) const {
  pieces.clear();
  indices_.append_pieces(range, pieces);
  values_.append_pieces(range, pieces);
  for (const RowPiece& piece : pieces)
    for (std::int64_t at = 0; at < std::min(kPrefetchBytes, piece.length * 4); at += 64)
      __builtin_prefetch(piece.data + at);
}

void CsrRows::decode(std::int64_t begin, std::int64_t end, const CsrSink& sink) const {
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(sink.dtype));
  std::vector<RowPiece> indices;
  std::vector<RowPiece> values;
  std::vector<RowPiece> ahead;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kPrefetchRows < end) prefetch(ranges_[i + kPrefetchRows], ahead);
    indices.clear();
    values.clear();
    indices_.append_pieces(ranges_[i], indices);
    values_.append_pieces(ranges_[i], values);
    sink.counts[i] = matrix_.decoder().decode(
        rows_[i], indices, values, sink.dtype, sink.casting, sink.indices + sink.place[i],
        static_cast<std::byte*>(sink.values) + sink.place[i] * out_bytes);
  }
}

std::vector<EntryRange> ranges_of(const CsrMatrix& matrix, std::span<const std::int64_t> rows) {
  std::vector<EntryRange> ranges;
  ranges.reserve(rows.size());
  for (const std::int64_t row : rows) ranges.push_back(matrix.row_entries(row));
  return ranges;
}

}  // namespace

std::unique_ptr<FetchedRows> fetch_csr_rows(const CsrMatrix& matrix, const ChunkCache& cache,
                                            std::span<const std::int64_t> rows,
                                            const ParallelFor& parallel) {
  auto fetched = std::make_unique<CsrRows>(
      matrix, std::vector<std::int64_t>(rows.begin(), rows.end()), ranges_of(matrix, rows));
  fetched->inflate(cache, parallel);
  return fetched;
}

std::int64_t plan_csr_fetch_bytes(const CsrMatrix& matrix, std::span<const std::int64_t> rows) {
  std::int64_t bytes =
      std::ssize(rows) * static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(EntryRange));
  if (!matrix.indices().is_compressed() && !matrix.data().is_compressed()) return bytes;
  const std::vector<EntryRange> ranges = ranges_of(matrix, rows);
  for (const StoredArray* array : {&matrix.indices(), &matrix.data()})
    if (array->is_compressed())
      bytes += std::ssize(chunks_of(*array, ranges)) * array->chunk_bytes();
  return bytes;
}

}  // namespace cellfeed::format::h5ad
