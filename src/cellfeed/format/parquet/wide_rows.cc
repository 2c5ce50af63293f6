#include "cellfeed/format/parquet/wide_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cellfeed/format/parquet/fetched_groups.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::parquet_table {
namespace {

class WideRows final : public FetchedGroups {
 public:
  WideRows(const WideMatrix& matrix, const GroupCache& cache, std::span<const std::int64_t> rows,
           const ReadContext& context)
      : FetchedGroups(matrix, cache, rows),
        matrix_(matrix),
        counts_entries_(context.counts_entries),
        kept_(wanted().groups.size()),
        entries_(wanted().groups.size()) {}

  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < nnz.size(); ++i)
      nnz[i] = counts_entries_ ? size_of(i) : matrix_.n_cols();
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowPiece row = piece(static_cast<std::size_t>(i));
      target.counts[i] = matrix_.decoder().decode(
          rows()[i], {&row, 1}, target, target.place[i],
          counts_entries_ ? size_of(static_cast<std::size_t>(i)) : matrix_.n_cols());
    }
    publish_row_copies(target.past_caches);
  }
  bool is_dense() const override { return true; }
  void decode_dense(std::int64_t begin, std::int64_t end,
                    const DenseTarget& target) const override {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowPiece row = piece(static_cast<std::size_t>(i));
      std::array<RowPiece, 1> next{};
      if (i + 1 < end) next[0] = piece(static_cast<std::size_t>(i + 1));
      matrix_.decoder().decode(rows()[i], {&row, 1}, target, target.place[i],
                               std::span(next).first(i + 1 < end ? 1 : 0));
    }
    publish_row_copies(target.past_caches);
  }
  std::int64_t bytes_used() const override { return n_rows() * matrix_.row_bytes(); }

 private:
  RowPiece piece(std::size_t i) const {
    const WantedRows::Place& place = wanted().places[i];
    return {kept_[place.group].data() + place.row * matrix_.row_bytes(), matrix_.n_cols()};
  }
  std::int64_t size_of(std::size_t i) const {
    const WantedRows::Place& place = wanted().places[i];
    return entries_[place.group][place.row];
  }
  void keep(std::size_t g, std::span<const std::byte> decoded) override;

  const WideMatrix& matrix_;
  const bool counts_entries_;
  std::vector<matrix::Buffer<std::byte>> kept_;
  std::vector<std::vector<std::int64_t>> entries_;  // of each row that is kept
};

void WideRows::keep(std::size_t g, std::span<const std::byte> decoded) {
  const auto& wanted_rows = wanted().groups[g].rows;
  const std::int64_t row_bytes = matrix_.row_bytes();
  kept_[g].reset(wanted_rows.size() * static_cast<std::size_t>(row_bytes));
  for (std::size_t k = 0; k < wanted_rows.size(); ++k) {
    std::byte* const row = kept_[g].data() + static_cast<std::int64_t>(k) * row_bytes;
    std::memcpy(row, decoded.data() + wanted_rows[k] * row_bytes,
                static_cast<std::size_t>(row_bytes));
    if (!counts_entries_) continue;
    const RowPiece piece{row, matrix_.n_cols()};
    entries_[g].push_back(matrix_.decoder().count_entries({&piece, 1}));
  }
  add_bytes_kept(static_cast<std::int64_t>(kept_[g].capacity_bytes()));
}

}  // namespace

std::unique_ptr<FetchedRows> begin_wide_rows(const WideMatrix& matrix, const GroupCache& cache,
                                             std::span<const std::int64_t> rows,
                                             const ReadContext& context) {
  return std::make_unique<WideRows>(matrix, cache, rows, context);
}

ReadPlan plan_wide_rows(const WideMatrix& matrix, std::span<const std::int64_t> rows) {
  constexpr auto kRowBytes =
      static_cast<std::int64_t>(4 * sizeof(std::int64_t) + sizeof(WantedRows::Place));
  const WantedRows wanted = want_rows(matrix.file(), rows);
  ReadPlan plan = plan_groups(matrix, wanted);
  plan.bytes_held += std::ssize(rows) * (kRowBytes + matrix.row_bytes());
  return plan;
}

}  // namespace cellfeed::format::parquet_table
