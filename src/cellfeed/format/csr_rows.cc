// Rows fetched from a CsrMatrix.
#include "cellfeed/format/csr_rows.h"

#include <array>
#include <utility>
#include <vector>

#include "cellfeed/chunked/fetched_runs.h"
#include "cellfeed/format/moved_rows.h"

namespace cellfeed::format {
namespace {

using chunked::EntryRange;
using chunked::FetchedRuns;
using chunked::RowPiece;

struct RowPlaces;

class CsrRows final : public FetchedRows, public MovedRows {
 public:
  CsrRows(const CsrMatrix& matrix, const chunked::ChunkCache& cache, std::vector<std::int64_t> rows,
          std::vector<EntryRange> ranges)
      : matrix_(matrix),
        rows_(std::move(rows)),
        ranges_(std::move(ranges)),
        indices_(matrix.indices(), cache, ranges_),
        values_(matrix.data(), cache, ranges_),
        tasks_(runs_, matrix.file().ahead()) {
    for (const EntryRange& range : ranges_) n_entries_ += range.end - range.begin;
    if (const io::ReadAhead* ahead = matrix.file().ahead())
      bytes_ahead_ = chunked::read_runs_ahead(runs_, n_rows(), *ahead, matrix.file().row_bytes());
  }

  std::int64_t n_rows() const override { return std::ssize(rows_); }
  void wait() override { tasks_.wait(); }
  std::int64_t n_tasks() const override { return tasks_.size(); }
  void run(std::int64_t task) override { tasks_.run(task); }
  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < ranges_.size(); ++i) nnz[i] = ranges_[i].end - ranges_[i].begin;
  }
  void prefetch(std::int64_t begin, std::int64_t end) const override;
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    decode_moved(begin, end, target, {});
    require_intact();
  }
  const MovedRows* moved() const override { return this; }
  void decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                    const ColumnPlaces& places) const override;
  void require_intact() const override { matrix_.file().require_unchanged(); }
  std::int64_t bytes_read() const override {
    if (bytes_ahead_ > 0) return tasks_.bytes_read() + bytes_ahead_;
    return tasks_.bytes_read() + (indices_.is_mapped() ? bytes_of(matrix_.indices()) : 0) +
           (values_.is_mapped() ? bytes_of(matrix_.data()) : 0);
  }
  std::int64_t bytes_used() const override {
    return bytes_of(matrix_.indices()) + bytes_of(matrix_.data());
  }
  std::int64_t bytes_held() const override {
    return indices_.bytes_held() + values_.bytes_held() + tasks_.bytes_held();
  }

 private:
  void find(std::int64_t i, RowPlaces& places) const;
  std::int64_t bytes_of(const StoredArray& array) const {
    return n_entries_ * array.element_bytes();
  }

  const CsrMatrix& matrix_;
  std::vector<std::int64_t> rows_;
  std::vector<EntryRange> ranges_;
  FetchedRuns indices_;
  FetchedRuns values_;
  const std::array<FetchedRuns*, 2> runs_{&indices_, &values_};
  chunked::InflatingTasks tasks_;
  std::int64_t n_entries_ = 0;
  std::int64_t bytes_ahead_ = 0;
};

// Where a row and the next one lie. Of each thread, so that rows few at a time allocate nothing.
struct RowPlaces {
  std::vector<RowPiece> indices;
  std::vector<RowPiece> values;
};

void CsrRows::find(std::int64_t i, RowPlaces& places) const {
  places.indices.clear();
  places.values.clear();
  indices_.append_pieces(static_cast<std::size_t>(i), places.indices);
  values_.append_pieces(static_cast<std::size_t>(i), places.values);
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
  ask(places.indices, matrix_.indices().element_bytes());
  ask(places.values, matrix_.data().element_bytes());
}

void CsrRows::decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                           const ColumnPlaces& places) const {
  static thread_local RowPlaces row, next;
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  if (begin < end) find(begin, next);
  for (std::int64_t i = begin; i < end; ++i) {
    std::swap(row, next);
    if (i + 1 < end) {
      find(i + 1, next);
    } else {
      next.indices.clear();
      next.values.clear();
    }
    target.counts[i] = matrix_.decoder().decode(
        rows_[i], row.indices, row.values, target.dtype, target.casting,
        target.indices + target.place[i],
        static_cast<std::byte*>(target.values) + target.place[i] * out_bytes,
        {next.indices, next.values, target.past_caches, places});
  }
  publish_row_copies(target.past_caches);
}

}  // namespace

std::unique_ptr<FetchedRows> begin_csr_rows(const CsrMatrix& matrix,
                                            const chunked::ChunkCache& cache,
                                            std::span<const std::int64_t> rows) {
  return std::make_unique<CsrRows>(matrix, cache,
                                   std::vector<std::int64_t>(rows.begin(), rows.end()),
                                   matrix.offsets().entries_of(rows));
}

ReadPlan plan_csr_rows(const CsrMatrix& matrix, const chunked::ChunkCache& cache,
                       std::span<const std::int64_t> rows) {
  constexpr auto kRowBytes =
      static_cast<std::int64_t>(3 * sizeof(std::int64_t) + sizeof(EntryRange));
  ReadPlan plan{.bytes_held = std::ssize(rows) * kRowBytes};
  if (matrix.indices().is_mapped() && matrix.data().is_mapped()) return plan;
  const std::vector<EntryRange> ranges = matrix.offsets().entries_of(rows);
  for (const StoredArray* array : {&matrix.indices(), &matrix.data()}) {
    const chunked::RunsPlan part = chunked::plan_runs(*array, cache, ranges);
    plan.bytes_held += part.bytes_held;
    plan.bytes_inflated += part.bytes_inflated;
  }
  return plan;
}

}  // namespace cellfeed::format
