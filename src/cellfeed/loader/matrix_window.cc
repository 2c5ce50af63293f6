#include "cellfeed/loader/matrix_window.h"

#include <algorithm>
#include <utility>

namespace cellfeed::loader {

std::int64_t MatrixWindow::list_bytes() const {
  constexpr auto kRowBytes = static_cast<std::int64_t>(
      5 * sizeof(std::int64_t) + sizeof(collection::RowPlace) + 2 * sizeof(RowsByStore::Piece));
  return std::ssize(rows_->rows) * kRowBytes;
}

void MatrixWindow::cut(std::size_t number, std::size_t batch, std::vector<Slice>& slices) {
  if (matrix_.sink->takes_by_position())
    cut_by_position(number, rows_->pieces_of(batch), rows_->positions, pieces_, slices);
  else
    cut_by_store(number, rows_->pieces_of(batch), pieces_, slices);
  orders_.push_back(std::make_unique<SliceOrder>());
}

void MatrixWindow::begin(const std::stop_token& stop) {
  fetched_.resize(rows_->parts.size());
  matrix_.cells->step_stores(std::ssize(fetched_), [&](std::int64_t p) {
    const RowsByStore::Part& part = rows_->parts[static_cast<std::size_t>(p)];
    fetched_[static_cast<std::size_t>(p)] =
        matrix_.cells->store(part.store)
            .begin(rows_->rows_of(part),
                   {.stop = stop, .counts_entries = matrix_.sink->counts_entries()});
  });
}

void MatrixWindow::wait() {
  std::int64_t n_tasks = 0;
  for (const auto& fetched : fetched_) {
    fetched->wait();
    task_ends_.push_back(n_tasks += fetched->n_tasks());
  }
}

std::int64_t MatrixWindow::n_tasks() const { return task_ends_.empty() ? 0 : task_ends_.back(); }

void MatrixWindow::run(std::int64_t task) {
  const auto part = static_cast<std::size_t>(
      std::upper_bound(task_ends_.begin(), task_ends_.end(), task) - task_ends_.begin());
  fetched_[part]->run(task - (part == 0 ? 0 : task_ends_[part - 1]));
}

void MatrixWindow::size_rows() {
  sizes_.resize(rows_->rows.size());
  place_.resize(rows_->rows.size());
  counts_.resize(rows_->rows.size());
  for (std::size_t p = 0; p < fetched_.size(); ++p) {
    const RowsByStore::Part& part = rows_->parts[p];
    fetched_[p]->sizes(std::span(sizes_).subspan(static_cast<std::size_t>(part.begin),
                                                 static_cast<std::size_t>(part.end - part.begin)));
  }
  for (std::size_t batch = 0; batch < orders_.size(); ++batch) {
    std::int64_t& nnz = max_nnz_.emplace_back(0);
    for (const RowsByStore::Piece& piece : rows_->pieces_of(batch))
      for (std::int64_t i = piece.begin; i < piece.end; ++i) nnz += sizes_[i];
  }
}

std::int64_t MatrixWindow::bytes_read() const {
  std::int64_t bytes = 0;
  for (const auto& fetched : fetched_) bytes += fetched->bytes_read();
  return bytes;
}

std::int64_t MatrixWindow::bytes_used() const {
  std::int64_t bytes = 0;
  for (const auto& fetched : fetched_) bytes += fetched->bytes_used();
  return bytes;
}

std::int64_t MatrixWindow::bytes_held() const {
  std::int64_t bytes = 0;
  for (const auto& fetched : fetched_) bytes += fetched->bytes_held();
  return bytes;
}

std::int64_t MatrixWindow::max_row_size(std::size_t batch) const {
  std::int64_t largest = 0;
  for (const RowsByStore::Piece& piece : rows_->pieces_of(batch))
    for (std::int64_t i = piece.begin; i < piece.end; ++i) largest = std::max(largest, sizes_[i]);
  return largest;
}

void MatrixWindow::place_rows(std::size_t batch, std::span<std::int64_t> indptr) {
  indptr[0] = 0;
  for (const RowsByStore::Piece& piece : rows_->pieces_of(batch))
    for (std::int64_t i = piece.begin; i < piece.end; ++i)
      indptr[rows_->positions[i] + 1] = sizes_[i];
  for (std::size_t i = 1; i < indptr.size(); ++i) indptr[i] += indptr[i - 1];
  for (const RowsByStore::Piece& piece : rows_->pieces_of(batch))
    for (std::int64_t i = piece.begin; i < piece.end; ++i) place_[i] = indptr[rows_->positions[i]];
}

void MatrixWindow::decode_slice(std::size_t batch, const sampling::BatchPlan& plan,
                                const Slice& slice, Casting casting, bool past_caches,
                                matrix::Block& out, Counters& counters) {
  const SliceRows rows{.number = slice.number,
                       .pieces = std::span(pieces_).subspan(slice.begin, slice.end - slice.begin),
                       .parts = rows_->parts,
                       .fetched = fetched_,
                       .plan = plan,
                       .positions = rows_->positions.data(),
                       .sizes = sizes_.data(),
                       .place = place_.data(),
                       .counts = counts_.data(),
                       .order = *orders_[batch],
                       .past_caches = past_caches};
  SliceDecoder(rows, *matrix_.pipeline, casting).run(*matrix_.sink, out, counters);
}

void MatrixWindow::require_intact(std::size_t batch) const {
  for (const RowsByStore::Piece& piece : rows_->pieces_of(batch))
    if (const auto* rows = fetched_[static_cast<std::size_t>(piece.part)]->moved())
      rows->require_intact();
}

void MatrixWindow::compact(std::size_t batch, matrix::CsrBlock& block) const {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(block.n_rows));
  bool has_gaps = false;
  for (const RowsByStore::Piece& piece : rows_->pieces_of(batch))
    for (std::int64_t i = piece.begin; i < piece.end; ++i) {
      counts[rows_->positions[i]] = counts_[i];
      has_gaps |= counts_[i] != sizes_[i];
    }
  if (!has_gaps) return;
  matrix::close_gaps(block.indptr.span(), counts, block.indices.data(),
                     matrix::value_buffer_data(block.values),
                     dtype_bytes(matrix::value_buffer_dtype(block.values)));
  matrix::cut_to_rows(block);
}

}  // namespace cellfeed::loader
