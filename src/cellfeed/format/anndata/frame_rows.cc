#include "cellfeed/format/anndata/frame_rows.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "cellfeed/chunked/fetched_runs.h"
#include "cellfeed/format/stored_values.h"

namespace cellfeed::format::anndata {
namespace {

using chunked::EntryRange;
using chunked::FetchedRuns;

// Rows that are gathered from their columns together.
constexpr std::int64_t kRowsTogether = 64;

class FrameRows final : public FetchedRows {
 public:
  FrameRows(const FrameMatrix& matrix, const chunked::ChunkCache& cache,
            std::vector<std::int64_t> rows, const ReadContext& context)
      : matrix_(matrix),
        rows_(std::move(rows)),
        ranges_(matrix.ranges_of(rows_)),
        columns_(fetch_columns(cache)),
        runs_(pointers()),
        inflating_(runs_, matrix.file().ahead()),
        counts_entries_(context.counts_entries) {
    if (const io::ReadAhead* ahead = matrix.file().ahead())
      bytes_ahead_ = chunked::read_runs_ahead(runs_, n_rows(), *ahead, matrix.file().row_bytes());
  }

  std::int64_t n_rows() const override { return std::ssize(rows_); }
  void wait() override { inflating_.wait(); }
  std::int64_t n_tasks() const override { return inflating_.size(); }
  void run(std::int64_t task) override { inflating_.run(task); }
  void sizes(std::span<std::int64_t> nnz) const override;
  bool is_dense() const override { return true; }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override;
  void decode_dense(std::int64_t begin, std::int64_t end, const DenseTarget& target) const override;
  std::int64_t bytes_read() const override {
    if (bytes_ahead_ > 0) return inflating_.bytes_read() + bytes_ahead_;
    return inflating_.bytes_read() + bytes_of([](const FetchedRuns& c) { return c.is_mapped(); });
  }
  std::int64_t bytes_used() const override {
    return bytes_of([](const FetchedRuns&) { return true; });
  }
  std::int64_t bytes_held() const override {
    std::int64_t bytes = inflating_.bytes_held();
    for (const FetchedRuns& column : columns_) bytes += column.bytes_held();
    return bytes;
  }

 private:
  std::deque<FetchedRuns> fetch_columns(const chunked::ChunkCache& cache) const {
    std::deque<FetchedRuns> columns;
    for (std::size_t c = 0; c < static_cast<std::size_t>(matrix_.n_cols()); ++c)
      columns.emplace_back(matrix_.column(c), cache, ranges_);
    return columns;
  }
  std::vector<FetchedRuns*> pointers() {
    std::vector<FetchedRuns*> runs;
    for (FetchedRuns& column : columns_) runs.push_back(&column);
    return runs;
  }
  template <typename IsOne>
  std::int64_t bytes_of(IsOne is_one) const {
    std::int64_t bytes = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (is_one(columns_[c])) bytes += n_rows() * matrix_.column(c).element_bytes();
    return bytes;
  }
  // The rows [begin, end) of the request, one behind the other, as numbers of the matrix's dtype.
  void gather(std::int64_t begin, std::int64_t end, std::vector<std::byte>& rows) const;
  void convert(std::size_t c, std::int64_t begin, const RowPiece& column,
               std::vector<std::byte>& converted) const;
  // Calls use(i, piece) for each row of the request in [begin, end).
  template <typename Use>
  void for_each_row(std::int64_t begin, std::int64_t end, Use&& use) const;

  const FrameMatrix& matrix_;
  const std::vector<std::int64_t> rows_;
  const std::vector<EntryRange> ranges_;
  std::deque<FetchedRuns> columns_;
  const std::vector<FetchedRuns*> runs_;
  chunked::InflatingTasks inflating_;
  const bool counts_entries_;
  std::int64_t bytes_ahead_ = 0;
};

void FrameRows::convert(std::size_t c, std::int64_t begin, const RowPiece& column,
                        std::vector<std::byte>& converted) const {
  const DType stored = matrix_.column(c).dtype(), out = matrix_.dtype();
  const auto bytes = static_cast<std::size_t>(column.length) * dtype_bytes(out);
  converted.resize(std::max(converted.size(), bytes));
  if (stored == out) {
    std::memcpy(converted.data(), column.data, bytes);
    return;
  }
  const std::int64_t misfit =
      convert_values({stored, out, false}, column, converted.data(), {}, false);
  if (misfit != kNoPosition)
    matrix_.throw_misfit(c, rows_[static_cast<std::size_t>(begin + misfit)],
                         value_text(stored, column.data, misfit));
}

void FrameRows::gather(std::int64_t begin, std::int64_t end, std::vector<std::byte>& rows) const {
  thread_local std::vector<RowPiece> pieces;
  thread_local std::vector<std::byte> native, converted;
  const std::size_t width = dtype_bytes(matrix_.dtype()), n_cols = columns_.size();
  const auto n = static_cast<std::size_t>(end - begin);
  rows.resize(n * n_cols * width);
  for (std::size_t c = 0; c < n_cols; ++c) {
    pieces.clear();
    for (std::int64_t i = begin; i < end; ++i)
      columns_[c].append_pieces(static_cast<std::size_t>(i), pieces);
    convert(c, begin, join_native(pieces, matrix_.column(c).number(), native), converted);
    for (std::size_t i = 0; i < n; ++i)
      std::memcpy(rows.data() + (i * n_cols + c) * width, converted.data() + i * width, width);
  }
}

template <typename Use>
void FrameRows::for_each_row(std::int64_t begin, std::int64_t end, Use&& use) const {
  thread_local std::vector<std::byte> rows;
  const std::int64_t n_cols = matrix_.n_cols();
  const std::int64_t row_bytes = n_cols * static_cast<std::int64_t>(dtype_bytes(matrix_.dtype()));
  for (std::int64_t first = begin; first < end; first += kRowsTogether) {
    const std::int64_t last = std::min(end, first + kRowsTogether);
    gather(first, last, rows);
    for (std::int64_t i = first; i < last; ++i) {
      const RowPiece row{rows.data() + (i - first) * row_bytes, n_cols};
      use(static_cast<std::size_t>(i), std::span(&row, 1));
    }
  }
}

void FrameRows::sizes(std::span<std::int64_t> nnz) const {
  std::ranges::fill(nnz, matrix_.n_cols());
  if (counts_entries_)
    for_each_row(0, n_rows(), [&](std::size_t i, std::span<const RowPiece> row) {
      nnz[i] = matrix_.decoder().count_entries(row);
    });
}

void FrameRows::decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const {
  for_each_row(begin, end, [&](std::size_t i, std::span<const RowPiece> row) {
    target.counts[i] =
        matrix_.decoder().decode(rows_[i], row, target, target.place[i], matrix_.n_cols());
  });
  publish_row_copies(target.past_caches);
  matrix_.file().require_unchanged();
}

void FrameRows::decode_dense(std::int64_t begin, std::int64_t end,
                             const DenseTarget& target) const {
  for_each_row(begin, end, [&](std::size_t i, std::span<const RowPiece> row) {
    matrix_.decoder().decode(rows_[i], row, target, target.place[i], {});
  });
  publish_row_copies(target.past_caches);
  matrix_.file().require_unchanged();
}

}  // namespace

std::unique_ptr<FetchedRows> begin_frame_rows(const FrameMatrix& matrix,
                                              const chunked::ChunkCache& cache,
                                              std::span<const std::int64_t> rows,
                                              const ReadContext& context) {
  return std::make_unique<FrameRows>(matrix, cache,
                                     std::vector<std::int64_t>(rows.begin(), rows.end()), context);
}

}  // namespace cellfeed::format::anndata
