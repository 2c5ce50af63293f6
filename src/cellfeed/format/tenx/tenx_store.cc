// TenxStore: a CSR matrix by cells, barcodes and features of one file.
#include "cellfeed/format/tenx/tenx_store.h"

#include <arrow/api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/chosen_columns.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/content_fingerprint.h"
#include "cellfeed/format/csr_matrix.h"
#include "cellfeed/format/csr_rows.h"
#include "cellfeed/format/shared_axis.h"
#include "cellfeed/format/tenx/features.h"
#include "cellfeed/format/tenx/tenx_file.h"

namespace cellfeed::format::tenx {
namespace {

// The only column of cells that 10x files have; of matrices of probes.
constexpr char kFilteredBarcodes[] = "filtered_barcodes";

class TenxStore final : public RowStore {
 public:
  TenxStore(std::unique_ptr<H5File> file, const OpenOptions& options);

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return *genes_; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext&) const override;
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    ReadPlan plan = plan_csr_rows(matrix_, cache_, rows);
    plan.read_ahead_bytes = file_->row_source().costs().in_flight_bytes;
    return plan;
  }
  void set_cache_bytes(std::int64_t bytes) const override {
    cache_.set_capacity(matrix_.take_cache_bytes(bytes));
  }
  void release_pages() const override { file_->release_pages(); }
  std::vector<std::string> obs_names() const override;
  matrix::FixedColumn obs_column(const std::string& name) const override;
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override;
  std::shared_ptr<arrow::Table> read_var() const override { return features_.table(); }
  std::uint64_t fingerprint() const override;

 private:
  void describe(const std::string& layer);
  std::shared_ptr<arrow::Array> read_column(const std::string& name, std::int64_t begin,
                                            std::int64_t end) const;

  std::unique_ptr<H5File> file_;
  const TenxMatrix stored_;
  const FeatureChoice choice_;
  CsrMatrix matrix_;
  chunked::ChunkCache cache_;
  Features features_;
  StoreInfo info_;
  std::shared_ptr<const matrix::GeneAxis> genes_;
  mutable std::atomic<std::uint64_t> fingerprint_{0};  // 0: not asked for yet
};

TenxStore::TenxStore(std::unique_ptr<H5File> file, const OpenOptions& options)
    : file_(std::move(file)),
      stored_(find_matrix(*file_, options.choice.genome)),
      choice_{options.choice.genome, options.choice.feature_type},
      matrix_(*file_, stored_.group, stored_.n_cells, stored_.n_features),
      cache_(matrix_.take_cache_bytes(options.cache_bytes), cached_arrays(matrix_)),
      features_(file_->hdf5(), stored_, choice_) {
  find_list(file_->hdf5(), stored_.group + "/barcodes", stored_.n_cells);
  genes_ = share_axis({features_.names()});
  file_->require_unchanged();
  describe(options.layer);
}

void TenxStore::describe(const std::string& layer) {
  info_.path = file_->path();
  info_.format = "10x";
  info_.layer = layer;
  info_.choice = choice_.genome + "\n" + choice_.feature_type;
  info_.bytes_on_disk = file_->size();
  describe_matrix(matrix_, info_);
  info_.n_cols = features_.chosen().n_kept();
  info_.left_out = features_.chosen().left_out();
  if (!features_.chosen().columns().empty()) info_.nnz = -1;
}

std::unique_ptr<FetchedRows> TenxStore::begin(std::span<const std::int64_t> rows,
                                              const ReadContext&) const {
  file_->require_unchanged();
  auto fetched = begin_csr_rows(matrix_, cache_, rows);
  if (features_.chosen().columns().empty()) return fetched;
  return choose_columns(std::move(fetched), features_.chosen().columns());
}

std::vector<std::string> TenxStore::obs_names() const {
  if (!file_->hdf5().find(stored_.group + "/" + kFilteredBarcodes)) return {};
  return {kFilteredBarcodes};
}

std::shared_ptr<arrow::Array> TenxStore::read_column(const std::string& name, std::int64_t begin,
                                                     std::int64_t end) const {
  const std::string path = stored_.group + "/" + (name == "_index" ? "barcodes" : name);
  const auto values =
      read_values(column_of(find_list(file_->hdf5(), path, info_.n_rows)), begin, end);
  if (name == "_index" || values->type_id() == arrow::Type::BOOL) return values;
  if (!arrow::is_integer(values->type_id()))
    throw_error(ErrorKind::kCorruptData, info_.path, "must hold booleans: '{}' holds {}", path,
                values->type()->ToString());
  arrow::BooleanBuilder builder;
  for (std::int64_t i = 0; i < values->length(); ++i) {
    const auto scalar = values->GetScalar(i);
    check_arrow(scalar.status());
    check_arrow(builder.Append((*scalar)->ToString() != "0"));
  }
  std::shared_ptr<arrow::Array> flags;
  check_arrow(builder.Finish(&flags));
  return flags;
}

matrix::FixedColumn TenxStore::obs_column(const std::string& name) const {
  file_->require_unchanged();
  const auto columns = obs_names();
  if (name != "_index" && std::find(columns.begin(), columns.end(), name) == columns.end())
    throw_error(ErrorKind::kNoSuchKey, info_.path, "no obs column '{}'{}", name,
                suggestion(name, columns));
  const auto column = read_column(name, 0, info_.n_rows);
  file_->require_unchanged();
  return matrix::make_fixed_column(name, arrow::ChunkedArray(column));
}

std::shared_ptr<arrow::Table> TenxStore::read_obs(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > info_.n_rows)
    throw_error(ErrorKind::kOutOfRange, info_.path, "obs rows out of range: [{}, {}), rows {}",
                begin, end, info_.n_rows);
  file_->require_unchanged();
  arrow::FieldVector fields{arrow::field("_index", arrow::utf8())};
  arrow::ArrayVector arrays{read_column("_index", begin, end)};
  for (const std::string& name : obs_names()) {
    arrays.push_back(read_column(name, begin, end));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  }
  file_->require_unchanged();
  return arrow::Table::Make(arrow::schema(std::move(fields)), arrays, end - begin);
}

// Threads that ask at once find the same number.
std::uint64_t TenxStore::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  const std::array<std::string, 1> groups{stored_.group};
  const std::uint64_t found = content_fingerprint(*file_, groups, info_.choice);
  file_->require_unchanged();
  return fingerprint_ = found;
}

}  // namespace

std::unique_ptr<RowStore> open_tenx(std::unique_ptr<H5File> file, const OpenOptions& options) {
  if (options.cache_bytes < 0)
    throw_invalid("cache_bytes must not be negative: {}", options.cache_bytes);
  if (options.layer != "X")
    throw_error(ErrorKind::kNoSuchKey, file->path(),
                "no layer '{}': a 10x file has one matrix, named X", options.layer);
  return std::make_unique<TenxStore>(std::move(file), options);
}

}  // namespace cellfeed::format::tenx
