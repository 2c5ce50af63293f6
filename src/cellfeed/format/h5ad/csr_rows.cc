// Rows fetched from a CsrMatrix.
#include "cellfeed/format/h5ad/csr_rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

namespace cellfeed::format::h5ad {
namespace {

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

// One of the two arrays of the fetched rows. Of a compressed array that is not kept whole only the
// entries of these rows are kept: each chunk is inflated once, or found in the cache, what the rows
// need is copied out, and the rest is let go. So what is held was known before.
class ArrayRows {
 public:
  // Lifetime: array and ranges outlive this.
  ArrayRows(const StoredArray& array, const ChunkCache& cache, std::span<const EntryRange> ranges)
      : array_(array), ranges_(ranges), width_(array.element_bytes()) {
    if (!array_.is_compressed()) {
      if (array_.n_chunks() > 0) array_.locate_chunks(chunks_of(array_, ranges));
      return;
    }
    whole_ = cache.whole(array_.key());
    chunks_ = chunks_of(array_, ranges);
    array_.locate_chunks(chunks_);
  }

  // The slots to inflate, or to copy from. Makes room for their entries.
  std::vector<std::size_t> slots_to_fill() {
    std::vector<std::size_t> slots;
    for (std::size_t slot = 0; slot < chunks_.size(); ++slot)
      if (!whole_ || !whole_->has(chunks_[slot])) slots.push_back(slot);
    if (!whole_ && !slots.empty()) list_users();
    return slots;
  }
  bool is_cached(std::size_t slot, const ChunkCache& cache) const {
    return !whole_ && cache.find({array_.key(), chunks_[slot]}) != nullptr;
  }

  // Thread-safe for different slots. Returns the bytes read.
  std::int64_t fill(std::size_t slot, const ChunkCache& cache) {
    if (whole_) {
      const bool is_read = whole_->fill(
          chunks_[slot], [&](std::span<std::byte> out) { array_.inflate(chunks_[slot], out); });
      return is_read ? stored_range(slot).length : 0;
    }
    if (const auto cached = cache.find({array_.key(), chunks_[slot]})) {
      copy_entries(slot, *cached);
      return 0;
    }
    auto chunk = cache.make_chunk(static_cast<std::size_t>(array_.chunk_bytes()));
    array_.inflate(chunks_[slot], chunk->bytes.span());
    copy_entries(slot, *chunk);
    cache.insert({array_.key(), chunks_[slot]}, std::move(chunk));
    return stored_range(slot).length;
  }

  void append_pieces(std::int64_t row, std::vector<RowPiece>& pieces) const {
    const EntryRange& range = ranges_[row];
    if (!array_.is_compressed()) return array_.append_pieces(range.begin, range.end, pieces);
    if (range.begin >= range.end) return;
    const std::byte* data =
        whole_ ? whole_->bytes() + range.begin * width_ : kept_.data() + starts_[row] * width_;
    pieces.push_back({data, range.end - range.begin});
  }

  // Where the chunk of a slot lies in the file.
  io::ByteRange stored_range(std::size_t slot) const { return array_.stored_range(chunks_[slot]); }

  std::int64_t bytes_held() const { return static_cast<std::int64_t>(kept_.size()); }
  std::int64_t width() const { return width_; }
  bool is_mapped() const { return !array_.is_compressed(); }

 private:
  // Thread-safe for different slots.
  void copy_entries(std::size_t slot, const InflatedChunk& chunk) {
    const std::int64_t step = array_.chunk_elements();
    const std::int64_t chunk_begin = chunks_[slot] * step;
    for (std::size_t u = first_user_[slot]; u < first_user_[slot + 1]; ++u) {
      const EntryRange& range = ranges_[users_[u]];
      const std::int64_t begin = std::max(range.begin, chunk_begin);
      const std::int64_t end = std::min(range.end, chunk_begin + step);
      std::memcpy(kept_.data() + (starts_[users_[u]] + begin - range.begin) * width_,
                  chunk.bytes.data() + (begin - chunk_begin) * width_,
                  static_cast<std::size_t>((end - begin) * width_));
    }
  }

  // For each chunk the ranges that need it, and for each range its place among the entries kept.
  void list_users() {
    const std::int64_t step = array_.chunk_elements();
    starts_.reserve(ranges_.size());
    std::int64_t total = 0;
    first_user_.assign(chunks_.size() + 1, 0);
    const auto for_each_slot = [&](std::size_t r, const auto& visit) {
      const EntryRange& range = ranges_[r];
      if (range.begin >= range.end) return;
      auto slot = static_cast<std::size_t>(
          std::lower_bound(chunks_.begin(), chunks_.end(), range.begin / step) - chunks_.begin());
      for (std::int64_t chunk = range.begin / step; chunk <= (range.end - 1) / step; ++chunk)
        visit(slot++);
    };
    for (std::size_t r = 0; r < ranges_.size(); ++r) {
      starts_.push_back(total);
      total += ranges_[r].end - ranges_[r].begin;
      for_each_slot(r, [&](std::size_t slot) { ++first_user_[slot + 1]; });
    }
    for (std::size_t slot = 0; slot < chunks_.size(); ++slot)
      first_user_[slot + 1] += first_user_[slot];
    users_.resize(first_user_.back());
    std::vector<std::size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (std::size_t r = 0; r < ranges_.size(); ++r)
      for_each_slot(r, [&](std::size_t slot) { users_[next[slot]++] = r; });
    kept_.reset(static_cast<std::size_t>(total * width_));
  }

  const StoredArray& array_;
  const std::span<const EntryRange> ranges_;
  const std::int64_t width_;
  std::vector<std::int64_t> chunks_;
  std::shared_ptr<InflatedArray> whole_;  // null where not all of the array is kept
  std::vector<std::size_t> first_user_;
  std::vector<std::size_t> users_;
  std::vector<std::int64_t> starts_;
  matrix::Buffer<std::byte> kept_;
};

struct RowPlaces;

class CsrRows final : public FetchedRows {
 public:
  CsrRows(const CsrMatrix& matrix, const ChunkCache& cache, std::vector<std::int64_t> rows,
          std::vector<EntryRange> ranges)
      : matrix_(matrix),
        cache_(cache),
        rows_(std::move(rows)),
        ranges_(std::move(ranges)),
        indices_(matrix.indices(), cache, ranges_),
        values_(matrix.data(), cache, ranges_) {
    for (const EntryRange& range : ranges_) n_entries_ += range.end - range.begin;
    read_rows_ahead();
    read_chunks_ahead();
  }

  std::int64_t n_rows() const override { return std::ssize(rows_); }
  std::int64_t n_tasks() const override { return std::ssize(tasks_); }
  void run(std::int64_t task) override {
    const auto& [array, slot] = tasks_[task];
    bytes_inflated_ += array->fill(slot, cache_);
  }
  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < ranges_.size(); ++i) nnz[i] = ranges_[i].end - ranges_[i].begin;
  }
  void prefetch(std::int64_t begin, std::int64_t end) const override;
  void decode(std::int64_t begin, std::int64_t end, const CsrSink& sink) const override;
  std::int64_t bytes_read() const override {
    if (bytes_ahead_ > 0) return bytes_inflated_ + bytes_ahead_;
    return bytes_inflated_ + (indices_.is_mapped() ? bytes_of(matrix_.indices()) : 0) +
           (values_.is_mapped() ? bytes_of(matrix_.data()) : 0);
  }
  std::int64_t bytes_used() const override {
    return bytes_of(matrix_.indices()) + bytes_of(matrix_.data());
  }
  std::int64_t bytes_held() const override { return indices_.bytes_held() + values_.bytes_held(); }

 private:
  void find(std::int64_t i, RowPlaces& places) const;
  // Has the rows' bytes read into the map, where they are decoded from it.
  void read_rows_ahead();
  // Lists the chunks to inflate, and has them read.
  void read_chunks_ahead();
  std::int64_t bytes_of(const StoredArray& array) const {
    return n_entries_ * array.element_bytes();
  }

  const CsrMatrix& matrix_;
  const ChunkCache& cache_;
  std::vector<std::int64_t> rows_;
  std::vector<EntryRange> ranges_;
  ArrayRows indices_;
  ArrayRows values_;
  std::vector<std::pair<ArrayRows*, std::size_t>> tasks_;
  std::int64_t n_entries_ = 0;
  std::atomic<std::int64_t> bytes_inflated_{0};  // as stored
  std::int64_t bytes_ahead_ = 0;
};

void CsrRows::read_rows_ahead() {
  const io::ReadAhead* ahead = matrix_.file().ahead();
  std::vector<const ArrayRows*> mapped;
  for (const ArrayRows* array : {&indices_, &values_})
    if (array->is_mapped()) mapped.push_back(array);
  if (ahead == nullptr || mapped.empty()) return;
  const auto file = matrix_.file().row_bytes();
  std::vector<RowPiece> pieces;
  // Item i is row i of the first array, then of the second.
  bytes_ahead_ = ahead->ask(
      n_rows() * std::ssize(mapped), [&](std::int64_t item, std::vector<io::ByteRange>& ranges) {
        const ArrayRows& array = *mapped[item / n_rows()];
        pieces.clear();
        array.append_pieces(item % n_rows(), pieces);
        for (const RowPiece& piece : pieces)
          if (piece.data >= file.data() && piece.data < file.data() + file.size())
            ranges.push_back({piece.data - file.data(), piece.length * array.width()});
      });
}

void CsrRows::read_chunks_ahead() {
  for (ArrayRows* array : {&indices_, &values_})
    for (const std::size_t slot : array->slots_to_fill()) tasks_.emplace_back(array, slot);
  const io::ReadAhead* ahead = matrix_.file().ahead();
  if (ahead == nullptr || tasks_.empty()) return;
  ahead->ask(n_tasks(), [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
    const auto& [array, slot] = tasks_[i];
    if (!array->is_cached(slot, cache_)) ranges.push_back(array->stored_range(slot));
  });
}

// Where a row and the next one lie. Of each thread, so that rows few at a time allocate nothing.
struct RowPlaces {
  std::vector<RowPiece> indices;
  std::vector<RowPiece> values;
};

void CsrRows::find(std::int64_t i, RowPlaces& places) const {
  places.indices.clear();
  places.values.clear();
  indices_.append_pieces(i, places.indices);
  values_.append_pieces(i, places.values);
}

// Of the first row: decode asks for each of the others while it copies the one before.
void CsrRows::prefetch(std::int64_t begin, std::int64_t end) const {
  static thread_local RowPlaces places;
  if (begin == end) return;
  const auto ask = [](std::span<const RowPiece> pieces, std::int64_t width) {
    for (const RowPiece& piece : pieces)
      for (std::int64_t at = 0; at < piece.length * width; at += 64)
        __builtin_prefetch(piece.data + at);
  };
  find(begin, places);
  ask(places.indices, indices_.width());
  ask(places.values, values_.width());
}

void CsrRows::decode(std::int64_t begin, std::int64_t end, const CsrSink& sink) const {
  static thread_local RowPlaces row, next;
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(sink.dtype));
  if (begin < end) find(begin, next);
  for (std::int64_t i = begin; i < end; ++i) {
    std::swap(row, next);
    if (i + 1 < end) {
      find(i + 1, next);
    } else {
      next.indices.clear();
      next.values.clear();
    }
    sink.counts[i] = matrix_.decoder().decode(
        rows_[i], row.indices, row.values, sink.dtype, sink.casting, sink.indices + sink.place[i],
        static_cast<std::byte*>(sink.values) + sink.place[i] * out_bytes,
        {next.indices, next.values, sink.past_caches});
  }
  publish_row_copies(sink.past_caches);
}

std::vector<EntryRange> ranges_of(const CsrMatrix& matrix, std::span<const std::int64_t> rows) {
  std::vector<EntryRange> ranges;
  ranges.reserve(rows.size());
  for (const std::int64_t row : rows) ranges.push_back(matrix.row_entries(row));
  return ranges;
}

}  // namespace

std::unique_ptr<FetchedRows> begin_csr_rows(const CsrMatrix& matrix, const ChunkCache& cache,
                                            std::span<const std::int64_t> rows) {
  return std::make_unique<CsrRows>(
      matrix, cache, std::vector<std::int64_t>(rows.begin(), rows.end()), ranges_of(matrix, rows));
}

ReadPlan plan_csr_rows(const CsrMatrix& matrix, const ChunkCache& cache,
                       std::span<const std::int64_t> rows) {
  constexpr auto kRowBytes =
      static_cast<std::int64_t>(3 * sizeof(std::int64_t) + sizeof(EntryRange));
  ReadPlan plan{.bytes_held = std::ssize(rows) * kRowBytes};
  if (!matrix.indices().is_compressed() && !matrix.data().is_compressed()) return plan;
  const std::vector<EntryRange> ranges = ranges_of(matrix, rows);
  for (const StoredArray* array : {&matrix.indices(), &matrix.data()}) {
    if (!array->is_compressed()) continue;
    plan.bytes_inflated += std::ssize(chunks_of(*array, ranges)) * array->chunk_bytes();
    if (cache.keeps_whole()) continue;
    for (const EntryRange& range : ranges)
      plan.bytes_held += (range.end - range.begin) * array->element_bytes();
  }
  return plan;
}

}  // namespace cellfeed::format::h5ad
