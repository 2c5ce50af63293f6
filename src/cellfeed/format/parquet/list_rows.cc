#include "cellfeed/format/parquet/list_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cellfeed/format/moved_rows.h"
#include "cellfeed/format/parquet/fetched_groups.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::parquet_table {
namespace {

// Of one row group the entries of the rows that were asked for.
struct KeptLists {
  std::vector<std::int64_t> begins;  // of each row, and the end
  matrix::Buffer<std::int32_t> indices;
  matrix::Buffer<std::byte> values;
};

class ListRows final : public FetchedGroups, public MovedRows {
 public:
  ListRows(const ListMatrix& matrix, const GroupCache& cache, std::span<const std::int64_t> rows)
      : FetchedGroups(matrix, cache, rows),
        matrix_(matrix),
        value_bytes_(static_cast<std::int64_t>(dtype_bytes(matrix.dtype()))),
        kept_(wanted().groups.size()) {
    // How long lists are is not known yet.
    for (const std::int64_t row : this->rows()) {
      const int group = matrix.file().group_of(row);
      bytes_used_ += matrix.group(group).most_entries * (value_bytes_ + ListLayout::kIndexBytes) /
                     matrix.file().rows_of(group);
    }
  }

  void sizes(std::span<std::int64_t> nnz) const override {
    for (std::size_t i = 0; i < nnz.size(); ++i) nnz[i] = entries(i).length;
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    decode_moved(begin, end, target, {});
  }
  const MovedRows* moved() const override { return this; }
  void decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                    const ColumnPlaces& places) const override;
  void require_intact() const override {}  // what is decoded was compared when it was kept
  std::int64_t bytes_used() const override { return bytes_used_; }

 private:
  struct Entries {
    const KeptLists* of = nullptr;
    std::int64_t begin = 0;
    std::int64_t length = 0;
  };
  Entries entries(std::size_t i) const {
    const WantedRows::Place& place = wanted().places[i];
    const KeptLists& kept = kept_[place.group];
    const std::int64_t begin = kept.begins[place.row];
    return {&kept, begin, kept.begins[place.row + 1] - begin};
  }
  void keep(std::size_t g, std::span<const std::byte> decoded) override;

  const ListMatrix& matrix_;
  const std::int64_t value_bytes_;
  std::vector<KeptLists> kept_;
  std::int64_t bytes_used_ = 0;
};

void ListRows::keep(std::size_t g, std::span<const std::byte> decoded) {
  const WantedRows::Group& group = wanted().groups[g];
  const ListLayout layout = matrix_.layout(group.number);
  const auto* begins = reinterpret_cast<const std::int64_t*>(decoded.data());
  KeptLists& kept = kept_[g];
  kept.begins.assign(1, 0);
  for (const std::int64_t row : group.rows)
    kept.begins.push_back(kept.begins.back() + begins[row + 1] - begins[row]);
  const std::int64_t n = kept.begins.back();
  kept.indices.reset(static_cast<std::size_t>(n));
  kept.values.reset(static_cast<std::size_t>(n * value_bytes_));
  for (std::size_t k = 0; k < group.rows.size(); ++k) {
    const std::int64_t from = begins[group.rows[k]], length = kept.begins[k + 1] - kept.begins[k];
    if (length == 0) continue;
    std::memcpy(kept.indices.data() + kept.begins[k],
                decoded.data() + layout.indices_begin() + from * ListLayout::kIndexBytes,
                static_cast<std::size_t>(length * ListLayout::kIndexBytes));
    std::memcpy(kept.values.data() + kept.begins[k] * value_bytes_,
                decoded.data() + layout.values_begin() + from * value_bytes_,
                static_cast<std::size_t>(length * value_bytes_));
  }
  add_bytes_kept(
      static_cast<std::int64_t>(kept.indices.capacity_bytes() + kept.values.capacity_bytes()));
}

void ListRows::decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                            const ColumnPlaces& places) const {
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  for (std::int64_t i = begin; i < end; ++i) {
    const Entries row = entries(static_cast<std::size_t>(i));
    const RowPiece indices{reinterpret_cast<const std::byte*>(row.of->indices.data() + row.begin),
                           row.length};
    const RowPiece values{row.of->values.data() + row.begin * value_bytes_, row.length};
    target.counts[i] = matrix_.decoder().decode(
        rows()[i], {&indices, 1}, {&values, 1}, target.dtype, target.casting,
        target.indices + target.place[i],
        static_cast<std::byte*>(target.values) + target.place[i] * out_bytes,
        {.past_caches = target.past_caches, .places = places});
  }
  publish_row_copies(target.past_caches);
}

}  // namespace

std::unique_ptr<FetchedRows> begin_list_rows(const ListMatrix& matrix, const GroupCache& cache,
                                             std::span<const std::int64_t> rows) {
  return std::make_unique<ListRows>(matrix, cache, rows);
}

ReadPlan plan_list_rows(const ListMatrix& matrix, std::span<const std::int64_t> rows) {
  constexpr auto kRowBytes =
      static_cast<std::int64_t>(3 * sizeof(std::int64_t) + sizeof(WantedRows::Place));
  const WantedRows wanted = want_rows(matrix.file(), rows);
  ReadPlan plan = plan_groups(matrix, wanted);
  plan.bytes_held += std::ssize(rows) * kRowBytes;
  // How long lists are is not known before they are read.
  for (const WantedRows::Group& group : wanted.groups)
    plan.bytes_held += matrix.group(group.number).decoded_bytes;
  return plan;
}

}  // namespace cellfeed::format::parquet_table
