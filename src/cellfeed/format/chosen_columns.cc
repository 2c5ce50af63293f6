// Rows of which a store keeps some columns.
#include "cellfeed/format/chosen_columns.h"

#include <utility>

namespace cellfeed::format {
namespace {

class ChosenColumns final : public FetchedRows {
 public:
  ChosenColumns(std::unique_ptr<FetchedRows> rows, std::span<const std::int32_t> columns)
      : rows_(std::move(rows)), columns_(columns) {}

  std::int64_t n_rows() const override { return rows_->n_rows(); }
  void wait() override { rows_->wait(); }
  std::int64_t n_tasks() const override { return rows_->n_tasks(); }
  void run(std::int64_t task) override { rows_->run(task); }
  void sizes(std::span<std::int64_t> nnz) const override { rows_->sizes(nnz); }
  void prefetch(std::int64_t begin, std::int64_t end) const override {
    rows_->prefetch(begin, end);
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override;
  std::int64_t bytes_read() const override { return rows_->bytes_read(); }
  std::int64_t bytes_used() const override { return rows_->bytes_used(); }
  std::int64_t bytes_held() const override { return rows_->bytes_held(); }

 private:
  // Returns how many entries of a row are left.
  template <typename T>
  std::int32_t compact(std::int32_t n, std::int32_t* indices, T* values) const {
    std::int32_t kept = 0;
    for (std::int32_t i = 0; i < n; ++i) {
      const std::int32_t column = columns_[static_cast<std::size_t>(indices[i])];
      if (column < 0) continue;
      indices[kept] = column;
      values[kept++] = values[i];
    }
    return kept;
  }

  std::unique_ptr<FetchedRows> rows_;
  std::span<const std::int32_t> columns_;
};

void ChosenColumns::decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const {
  CsrTarget all = target;
  all.past_caches = false;  // what is written is read again at once
  rows_->decode(begin, end, all);
  dispatch_dtype(target.dtype, [&](auto zero) {
    auto* values = static_cast<decltype(zero)*>(target.values);
    for (std::int64_t i = begin; i < end; ++i)
      target.counts[i] =
          compact(target.counts[i], target.indices + target.place[i], values + target.place[i]);
  });
}

}  // namespace

std::unique_ptr<FetchedRows> choose_columns(std::unique_ptr<FetchedRows> rows,
                                            std::span<const std::int32_t> columns) {
  return std::make_unique<ChosenColumns>(std::move(rows), columns);
}

}  // namespace cellfeed::format
