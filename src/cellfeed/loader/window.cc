#include "cellfeed/loader/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cellfeed/loader/slice_decoder.h"

namespace cellfeed::loader {
namespace {

void move_values(matrix::ValueBuffer& values, std::int64_t to, std::int64_t from, std::int64_t n) {
  std::visit(
      [&](auto& buffer) {
        std::memmove(buffer.data() + to, buffer.data() + from,
                     static_cast<std::size_t>(n) * sizeof(buffer[0]));
      },
      values);
}

}  // namespace

Window::Window(const collection::Collection& collection, std::vector<LocatedBatch> batches)
    : collection_(collection), rows_(collection, batches), plan_(plan_reads(collection, rows_)) {
  batches_.reserve(batches.size());
  for (std::size_t b = 0; b < batches.size(); ++b) {
    batches_.push_back({std::move(batches[b].plan), std::move(batches[b].places), {}});
    cut_into_slices(rows_.pieces_of(b), pieces_, batches_.back().slices);
  }
}

std::int64_t Window::list_bytes() const {
  constexpr auto kRowBytes = static_cast<std::int64_t>(
      5 * sizeof(std::int64_t) + sizeof(collection::RowPlace) + 2 * sizeof(Piece));
  return std::ssize(rows_.rows) * kRowBytes;
}

void Window::begin(const collection::ReadContext& context, Counters& counters) {
  const std::int64_t start = now_ns();
  fetched_.reserve(rows_.parts.size());
  for (const Part& part : rows_.parts) {
    fetched_.push_back(collection_.store(part.store).begin(rows_.rows_of(part), context));
    bytes_used_ += fetched_.back()->bytes_used();
  }
  counters.fetch_ns += now_ns() - start;
}

void Window::wait(Counters& counters) {
  const std::int64_t start = now_ns();
  for (const auto& fetched : fetched_) fetched->wait();
  counters.fetch_ns += now_ns() - start;
}

void Window::finish(const collection::ParallelFor& parallel, Counters& counters) {
  const std::int64_t start = now_ns();
  std::vector<std::int64_t> task_ends;  // of each part
  std::int64_t n_tasks = 0;
  for (const auto& fetched : fetched_) task_ends.push_back(n_tasks += fetched->n_tasks());
  if (n_tasks > 0)
    parallel(n_tasks, [&](std::int64_t task) {
      const auto part = static_cast<std::size_t>(
          std::upper_bound(task_ends.begin(), task_ends.end(), task) - task_ends.begin());
      fetched_[part]->run(task - (part == 0 ? 0 : task_ends[part - 1]));
    });
  size_rows();
  std::int64_t bytes_read = 0;
  for (const auto& fetched : fetched_) bytes_read += fetched->bytes_read();
  counters.bytes_read += bytes_read;
  counters.bytes_used += bytes_used_;
  counters.fetch_ns += now_ns() - start;
}

void Window::size_rows() {
  sizes_.resize(rows_.rows.size());
  place_.resize(rows_.rows.size());
  counts_.resize(rows_.rows.size());
  for (std::size_t p = 0; p < fetched_.size(); ++p) {
    const Part& part = rows_.parts[p];
    fetched_[p]->sizes(std::span(sizes_).subspan(static_cast<std::size_t>(part.begin),
                                                 static_cast<std::size_t>(part.end - part.begin)));
  }
  for (std::size_t b = 0; b < batches_.size(); ++b)
    for (const Piece& piece : rows_.pieces_of(b))
      for (std::int64_t i = piece.begin; i < piece.end; ++i) batches_[b].max_nnz += sizes_[i];
}

std::int64_t Window::bytes_held() const {
  std::int64_t bytes = 0;
  for (const auto& fetched : fetched_) bytes += fetched->bytes_held();
  return bytes;
}

void Window::place_rows(std::size_t b, std::span<std::int64_t> indptr) {
  indptr[0] = 0;
  for (const Piece& piece : rows_.pieces_of(b))
    for (std::int64_t i = piece.begin; i < piece.end; ++i)
      indptr[rows_.positions[i] + 1] = sizes_[i];
  for (std::size_t i = 1; i < indptr.size(); ++i) indptr[i] += indptr[i - 1];
  for (const Piece& piece : rows_.pieces_of(b))
    for (std::int64_t i = piece.begin; i < piece.end; ++i) place_[i] = indptr[rows_.positions[i]];
}

void Window::decode_slice(std::size_t b, const Slice& slice, const RowPipeline& pipeline,
                          Casting casting, matrix::Batch& out, Counters& counters) {
  const SliceRows rows{.pieces = std::span(pieces_).subspan(slice.begin, slice.end - slice.begin),
                       .parts = rows_.parts,
                       .fetched = fetched_,
                       .plan = batches_[b].plan,
                       .positions = rows_.positions.data(),
                       .sizes = sizes_.data(),
                       .place = place_.data(),
                       .counts = counts_.data(),
                       .past_caches = batches_[b].past_caches};
  loader::decode_slice(rows, pipeline, casting, out, counters);
}

void Window::compact(std::size_t b, matrix::CsrBlock& block) const {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(block.n_rows));
  bool has_gaps = false;
  for (const Piece& piece : rows_.pieces_of(b))
    for (std::int64_t i = piece.begin; i < piece.end; ++i) {
      counts[rows_.positions[i]] = counts_[i];
      has_gaps |= counts_[i] != sizes_[i];
    }
  if (!has_gaps) return;
  std::int64_t to = 0;
  for (std::int64_t r = 0; r < block.n_rows; ++r) {
    const std::int64_t from = block.indptr[r];
    if (from != to) {
      std::memmove(block.indices.data() + to, block.indices.data() + from,
                   static_cast<std::size_t>(counts[r]) * sizeof(std::int32_t));
      move_values(block.values, to, from, counts[r]);
    }
    block.indptr[r] = to;
    to += counts[r];
  }
  block.indptr[block.n_rows] = to;
  block.indices.shrink(static_cast<std::size_t>(to));
  std::visit([to](auto& buffer) { buffer.shrink(static_cast<std::size_t>(to)); }, block.values);
}

}  // namespace cellfeed::loader
