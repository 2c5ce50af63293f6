#include "cellfeed/format/anndata/dense_rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "cellfeed/chunked/fetched_runs.h"

namespace cellfeed::format::anndata {
namespace {

using chunked::EntryRange;
using chunked::FetchedRuns;
using chunked::RowPiece;

// Rows that are counted by one task.
constexpr std::int64_t kMatrixRowsPerTask = 32;
// Of a row that is decoded soon so much is asked for.
constexpr std::int64_t kPrefetchedBytes = 16 << 10;

std::vector<EntryRange> ranges_of(const DenseMatrix& matrix, std::span<const std::int64_t> rows) {
  std::vector<EntryRange> ranges;
  ranges.reserve(rows.size());
  for (const std::int64_t row : rows) ranges.push_back(matrix.row_elements(row));
  return ranges;
}

class DenseMatrixRows final : public FetchedRows {
 public:
  DenseMatrixRows(const DenseMatrix& matrix, const chunked::ChunkCache& cache,
                  std::vector<std::int64_t> rows, const ReadContext& context)
      : matrix_(matrix),
        rows_(std::move(rows)),
        ranges_(ranges_of(matrix, rows_)),
        values_(matrix.values(), cache, ranges_),
        inflating_(runs_, matrix.file().ahead()) {
    if (const io::ReadAhead* ahead = matrix.file().ahead())
      bytes_ahead_ = chunked::read_runs_ahead(runs_, n_rows(), *ahead, matrix.file().row_bytes());
    if (context.counts_entries)
      plan_counting();
    else
      sizes_.assign(rows_.size(), matrix_.n_cols());
  }

  std::int64_t n_rows() const override { return std::ssize(rows_); }
  void wait() override { inflating_.wait(); }
  std::int64_t n_tasks() const override {
    return inflating_.size() + (std::ssize(ready_) + kMatrixRowsPerTask - 1) / kMatrixRowsPerTask;
  }
  void run(std::int64_t task) override;
  void sizes(std::span<std::int64_t> nnz) const override {
    std::copy(sizes_.begin(), sizes_.end(), nnz.begin());
  }
  void prefetch(std::int64_t begin, std::int64_t end) const override;
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override;
  bool is_dense() const override { return true; }
  void decode_dense(std::int64_t begin, std::int64_t end, const DenseTarget& target) const override;
  std::int64_t bytes_read() const override {
    if (bytes_ahead_ > 0 || !values_.is_mapped()) return inflating_.bytes_read() + bytes_ahead_;
    return bytes_used();
  }
  std::int64_t bytes_used() const override {
    return n_rows() * matrix_.n_cols() * matrix_.values().element_bytes();
  }
  std::int64_t bytes_held() const override {
    return values_.bytes_held() + inflating_.bytes_held();
  }

 private:
  void plan_counting();
  void count(std::size_t i);
  void find(std::int64_t i, std::vector<RowPiece>& pieces) const {
    pieces.clear();
    values_.append_pieces(static_cast<std::size_t>(i), pieces);
  }
  // Brings a row into the processor's caches: of chunks that hold few of its columns each piece is
  // somewhere else.
  void ask_for_row(std::span<const RowPiece> pieces) const {
    std::int64_t left = kPrefetchedBytes;
    for (const RowPiece& piece : pieces) {
      const std::int64_t bytes = std::min(piece.length * matrix_.values().element_bytes(), left);
      ask_for({piece.data, bytes});
      if ((left -= bytes) == 0) return;
    }
  }

  const DenseMatrix& matrix_;
  const std::vector<std::int64_t> rows_;
  const std::vector<EntryRange> ranges_;
  FetchedRuns values_;
  const std::array<FetchedRuns*, 1> runs_{&values_};
  chunked::InflatingTasks inflating_;
  std::int64_t bytes_ahead_ = 0;
  std::vector<std::int64_t> sizes_;  // of each row: its entries, or the columns
  // Of each row the chunks that are still to be inflated: whoever inflates the last one counts it.
  std::vector<std::atomic<std::int32_t>> pending_;
  std::vector<std::size_t> ready_;  // rows that wait for no chunk, which tasks of their own count
};

void DenseMatrixRows::plan_counting() {
  sizes_.assign(rows_.size(), 0);
  pending_ = std::vector<std::atomic<std::int32_t>>(rows_.size());
  for (std::int64_t task = 0; task < inflating_.size(); ++task)
    inflating_.for_each_user(
        task, [&](std::size_t i) { pending_[i].fetch_add(1, std::memory_order_relaxed); });
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (pending_[i].load(std::memory_order_relaxed) == 0) ready_.push_back(i);
}

void DenseMatrixRows::count(std::size_t i) {
  static thread_local std::vector<RowPiece> pieces;
  find(static_cast<std::int64_t>(i), pieces);
  sizes_[i] = matrix_.decoder().count_entries(pieces);
}

void DenseMatrixRows::run(std::int64_t task) {
  if (task < inflating_.size()) {
    inflating_.run(task);
    if (pending_.empty()) return;
    inflating_.for_each_user(task, [&](std::size_t i) {
      if (pending_[i].fetch_sub(1, std::memory_order_acq_rel) == 1) count(i);
    });
    return;
  }
  const std::int64_t begin = (task - inflating_.size()) * kMatrixRowsPerTask;
  const std::int64_t end = std::min(std::ssize(ready_), begin + kMatrixRowsPerTask);
  for (std::int64_t i = begin; i < end; ++i) count(ready_[static_cast<std::size_t>(i)]);
}

void DenseMatrixRows::prefetch(std::int64_t begin, std::int64_t end) const {
  static thread_local std::vector<RowPiece> pieces;
  if (begin == end) return;
  find(begin, pieces);
  ask_for_row(pieces);
}

void DenseMatrixRows::decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const {
  static thread_local std::vector<RowPiece> pieces, next;
  if (begin < end) find(begin, next);
  for (std::int64_t i = begin; i < end; ++i) {
    std::swap(pieces, next);
    if (i + 1 < end) {
      find(i + 1, next);
      ask_for_row(next);
    }
    target.counts[i] =
        matrix_.decoder().decode(rows_[i], pieces, target, target.place[i], sizes_[i]);
  }
  publish_row_copies(target.past_caches);
  matrix_.file().require_unchanged();
}

void DenseMatrixRows::decode_dense(std::int64_t begin, std::int64_t end,
                                   const DenseTarget& target) const {
  static thread_local std::vector<RowPiece> pieces, next;
  if (begin < end) find(begin, next);
  for (std::int64_t i = begin; i < end; ++i) {
    std::swap(pieces, next);
    next.clear();
    if (i + 1 < end) find(i + 1, next);
    // A piece alone is asked for while the row is copied.
    if (next.size() > 1) ask_for_row(next);
    matrix_.decoder().decode(rows_[i], pieces, target, target.place[i], next);
  }
  publish_row_copies(target.past_caches);
  matrix_.file().require_unchanged();
}

}  // namespace

std::unique_ptr<FetchedRows> begin_dense_rows(const DenseMatrix& matrix,
                                              const chunked::ChunkCache& cache,
                                              std::span<const std::int64_t> rows,
                                              const ReadContext& context) {
  return std::make_unique<DenseMatrixRows>(
      matrix, cache, std::vector<std::int64_t>(rows.begin(), rows.end()), context);
}

ReadPlan plan_dense_rows(const DenseMatrix& matrix, const chunked::ChunkCache& cache,
                         std::span<const std::int64_t> rows) {
  constexpr auto kRowBytes =
      static_cast<std::int64_t>(4 * sizeof(std::int64_t) + sizeof(EntryRange));
  ReadPlan plan{.bytes_held = std::ssize(rows) * kRowBytes};
  if (matrix.values().is_mapped()) return plan;
  const chunked::RunsPlan part =
      chunked::plan_runs(matrix.values(), cache, ranges_of(matrix, rows));
  plan.bytes_held += part.bytes_held;
  plan.bytes_inflated = part.bytes_inflated;
  return plan;
}

}  // namespace cellfeed::format::anndata
