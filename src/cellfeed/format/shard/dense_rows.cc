#include "cellfeed/format/shard/dense_rows.h"

#include <algorithm>
#include <vector>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/dense_file_layout.h"

namespace cellfeed::format::shard {
namespace {

constexpr std::int64_t kRowsPerTask = 32;

std::int64_t count_nonzero(const float* values, std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += values[i] != 0.0F;
  return count;
}

// Returns the entries written, or -1 when a value is not exact.
template <typename T>
std::int64_t copy_nonzero(const float* values, std::int64_t n, Casting casting,
                          std::int32_t* indices, T* out) {
  std::int64_t count = 0;
  bool exact = true;
  for (std::int64_t i = 0; i < n; ++i) {
    if (values[i] == 0.0F) continue;
    indices[count] = static_cast<std::int32_t>(i);
    out[count++] = convert_value<T>(values[i], &exact);
  }
  return exact || casting != Casting::kExact ? count : -1;
}

class DenseRows final : public FetchedRows {
 public:
  DenseRows(std::shared_ptr<const DenseFile> file, std::span<const std::int64_t> rows,
            const ParallelFor& parallel)
      : file_(std::move(file)), rows_(rows.begin(), rows.end()), nnz_(rows.size()) {
    for (const std::int64_t row : rows_) file_->row(row);
    file_->read_ahead(rows_);
    parallel((n_rows() + kRowsPerTask - 1) / kRowsPerTask, [&](std::int64_t task) {
      for (std::int64_t i = task * kRowsPerTask; i < std::min(n_rows(), (task + 1) * kRowsPerTask);
           ++i)
        nnz_[i] = count_nonzero(file_->row(rows_[i]), file_->n_cols());
    });
  }
  std::int64_t n_rows() const override { return static_cast<std::int64_t>(rows_.size()); }
  void sizes(std::span<std::int64_t> nnz) const override {
    std::copy(nnz_.begin(), nnz_.end(), nnz.begin());
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrSink& sink) const override {
    for (std::int64_t i = begin; i < end; ++i) {
      switch (sink.dtype) {
        case DType::kF32:
          decode_row(i, sink, static_cast<float*>(sink.values));
          break;
        case DType::kF64:
          decode_row(i, sink, static_cast<double*>(sink.values));
          break;
        case DType::kI32:
          decode_row(i, sink, static_cast<std::int32_t*>(sink.values));
          break;
        case DType::kI64:
          decode_row(i, sink, static_cast<std::int64_t*>(sink.values));
          break;
        default:
          throw_invalid("values decode to float32, float64, int32 or int64, not {}",
                        dtype_name(sink.dtype));
      }
    }
  }
  std::int64_t bytes_read() const override { return bytes_used(); }
  std::int64_t bytes_used() const override {
    return n_rows() * file_->n_cols() * static_cast<std::int64_t>(sizeof(float));
  }

 private:
  template <typename T>
  void decode_row(std::int64_t i, const CsrSink& sink, T* values) const {
    const std::int64_t place = sink.place[i];
    const std::int64_t count = copy_nonzero(file_->row(rows_[i]), file_->n_cols(), sink.casting,
                                            sink.indices + place, values + place);
    if (count < 0)
      throw_error(
          ErrorKind::kPrecision, file_->path(),
          "row {}: float32 values do not all fit {} exactly: ask for float32 or same_kind casting",
          rows_[i], dtype_name(sink.dtype));
    sink.counts[i] = static_cast<std::int32_t>(count);
  }

  std::shared_ptr<const DenseFile> file_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> nnz_;
};

}  // namespace

DenseFile::DenseFile(std::unique_ptr<io::ByteSource> mapped, std::int64_t n_rows,
                     std::int64_t n_cols, bool reads_ahead)
    : mapped_(std::move(mapped)), n_rows_(n_rows), n_cols_(n_cols) {
  const auto all = mapped_->map();
  const std::int64_t begin =
      parse_npy_header(all.first(std::min(all.size(), static_cast<std::size_t>(kNpyHeaderBytes))),
                       n_rows, n_cols, mapped_->size(), path());
  values_ = reinterpret_cast<const float*>(all.data() + begin);
  values_offset_ = begin;
  if (reads_ahead) ahead_.emplace(*mapped_);
}

void DenseFile::read_ahead(std::span<const std::int64_t> rows) const {
  if (!ahead_) return;
  const auto row_bytes = n_cols_ * static_cast<std::int64_t>(sizeof(float));
  ahead_->ask(std::ssize(rows), [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
    ranges.push_back({values_offset_ + rows[i] * row_bytes, row_bytes});
  });
}

const float* DenseFile::row(std::int64_t row) const {
  if (row < 0 || row >= n_rows_)
    throw_error(ErrorKind::kOutOfRange, path(), "row out of range: {}, rows {}", row, n_rows_);
  return values_ + row * n_cols_;
}

std::unique_ptr<FetchedRows> fetch_dense(std::shared_ptr<const DenseFile> file,
                                         std::span<const std::int64_t> rows,
                                         const ParallelFor& parallel) {
  return std::make_unique<DenseRows>(std::move(file), rows, parallel);
}

}  // namespace cellfeed::format::shard
