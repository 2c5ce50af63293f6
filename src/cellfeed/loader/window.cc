#include "cellfeed/loader/window.h"

#include <algorithm>
#include <utility>

namespace cellfeed::loader {

PlannedWindow plan_window(const collection::Collection& cells, std::vector<LocatedBatch> batches) {
  PlannedRows reads = plan_rows(cells, batches);
  return {std::move(batches), std::move(reads)};
}

Window::Window(std::span<const MatrixOutput> matrices, PlannedWindow planned)
    : plan_(planned.reads.work.reads) {
  const RowsOfMatrices& rows = planned.reads.rows;
  std::vector<LocatedBatch>& batches = planned.batches;
  matrices_.reserve(rows.size());
  for (std::size_t m = 0; m < rows.size(); ++m) matrices_.emplace_back(matrices[m], rows[m]);
  batches_.reserve(batches.size());
  for (std::size_t b = 0; b < batches.size(); ++b) {
    batches_.push_back({std::move(batches[b].plan), std::move(batches[b].places), {}});
    for (std::size_t m = 0; m < matrices_.size(); ++m)
      matrices_[m].cut(m, b, batches_.back().slices);
  }
}

std::int64_t Window::list_bytes() const {
  std::int64_t bytes = 0;
  for (const MatrixWindow& matrix : matrices_) bytes += matrix.list_bytes();
  return bytes;
}

void Window::begin(const std::stop_token& stop, Counters& counters) {
  const std::int64_t start = now_ns();
  for (MatrixWindow& matrix : matrices_) {
    matrix.begin(stop);
    bytes_used_ += matrix.bytes_used();
  }
  counters.fetch_ns += now_ns() - start;
}

void Window::wait(Counters& counters) {
  const std::int64_t start = now_ns();
  for (MatrixWindow& matrix : matrices_) matrix.wait();
  counters.fetch_ns += now_ns() - start;
}

void Window::finish(const collection::ParallelFor& parallel, Counters& counters) {
  const std::int64_t start = now_ns();
  std::vector<std::int64_t> task_ends;  // of each matrix
  std::int64_t n_tasks = 0;
  for (const MatrixWindow& matrix : matrices_) task_ends.push_back(n_tasks += matrix.n_tasks());
  if (n_tasks > 0)
    parallel(n_tasks, [&](std::int64_t task) {
      const auto m = static_cast<std::size_t>(
          std::upper_bound(task_ends.begin(), task_ends.end(), task) - task_ends.begin());
      matrices_[m].run(task - (m == 0 ? 0 : task_ends[m - 1]));
    });
  for (MatrixWindow& matrix : matrices_) {
    matrix.size_rows();
    counters.bytes_read += matrix.bytes_read();
  }
  counters.bytes_used += bytes_used_;
  counters.fetch_ns += now_ns() - start;
}

std::int64_t Window::bytes_held() const {
  std::int64_t bytes = 0;
  for (const MatrixWindow& matrix : matrices_) bytes += matrix.bytes_held();
  return bytes;
}

void Window::decode_slice(std::size_t b, const Slice& slice, Casting casting, matrix::Batch& out,
                          Counters& counters) {
  const WindowBatch& batch = batches_[b];
  matrices_[slice.matrix].decode_slice(b, batch.plan, slice, casting, batch.past_caches,
                                       out.block(slice.matrix), counters);
}

}  // namespace cellfeed::loader
