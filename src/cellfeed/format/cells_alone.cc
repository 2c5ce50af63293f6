#include "cellfeed/format/cells_alone.h"

#include <arrow/api.h>

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format {
namespace {

class NoEntries final : public FetchedRows {
 public:
  explicit NoEntries(std::int64_t n_rows) : n_rows_(n_rows) {}
  std::int64_t n_rows() const override { return n_rows_; }
  void sizes(std::span<std::int64_t> nnz) const override { std::ranges::fill(nnz, 0); }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    std::fill(target.counts + begin, target.counts + end, 0);
  }
  std::int64_t bytes_read() const override { return 0; }
  std::int64_t bytes_used() const override { return 0; }

 private:
  const std::int64_t n_rows_;
};

class CellsOfStore final : public CellsAlone {
 public:
  explicit CellsOfStore(std::unique_ptr<RowStore> store) : store_(std::move(store)) {
    describe(store_->info());
  }
  void release_pages() const override { store_->release_pages(); }
  std::vector<std::string> obs_names() const override { return store_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return store_->obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return store_->read_obs(begin, end);
  }
  std::uint64_t fingerprint() const override { return store_->fingerprint(); }

 private:
  const std::unique_ptr<RowStore> store_;
};

}  // namespace

void CellsAlone::describe(const StoreInfo& whole) {
  info_.path = whole.path;
  info_.format = whole.format;
  info_.root = whole.root;
  info_.layer = kNoLayer;
  info_.n_rows = whole.n_rows;
  info_.nnz = 0;
  info_.compression = "none";
  info_.bytes_on_disk = whole.bytes_on_disk;
}

std::unique_ptr<FetchedRows> CellsAlone::begin(std::span<const std::int64_t> rows,
                                               const ReadContext&) const {
  for (const std::int64_t row : rows)
    if (row < 0 || row >= info_.n_rows)
      throw_error(ErrorKind::kOutOfRange, info_.path, "row out of range: {}, rows {}", row,
                  info_.n_rows);
  return std::make_unique<NoEntries>(std::ssize(rows));
}

ReadPlan CellsAlone::plan(std::span<const std::int64_t>) const { return {}; }

std::shared_ptr<arrow::Table> CellsAlone::read_var() const {
  arrow::StringBuilder builder;
  std::shared_ptr<arrow::Array> names;
  check_arrow(builder.Finish(&names));
  return arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8())}), {names});
}

std::unique_ptr<RowStore> leave_out_matrix(std::unique_ptr<RowStore> store) {
  return std::make_unique<CellsOfStore>(std::move(store));
}

}  // namespace cellfeed::format
