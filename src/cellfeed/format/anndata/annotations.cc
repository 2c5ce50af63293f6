#include "cellfeed/format/anndata/annotations.h"

#include <arrow/api.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/anndata/column_reader.h"
#include "cellfeed/format/anndata/layers.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shared_axis.h"

namespace cellfeed::format::anndata {

Annotations::Annotations(const StoredTree& file, std::string layer, std::int64_t n_rows,
                         std::int64_t n_cols, std::vector<std::string> column_names)
    : file_(file),
      layer_(std::move(layer)),
      obs_(file, "obs", n_rows),
      n_rows_(n_rows),
      n_cols_(n_cols) {
  matrix::GeneAxis genes;
  const auto var = var_path(layer_);
  if (!var) {
    genes.names = column_names.empty() ? column_numbers(n_cols) : std::move(column_names);
    genes_ = share_axis(std::move(genes));
    return;
  }
  var_.emplace(file, *var, n_cols);
  const auto index = var_->read_index(0, n_cols);
  const auto& names = static_cast<const arrow::StringArray&>(*index);
  for (std::int64_t i = 0; names.null_count() > 0 && i < names.length(); ++i)
    if (names.IsNull(i))
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "a gene has no name: gene {} of '{}' is missing in its index", i, *var);
  for (std::int64_t i = 0; i < names.length(); ++i) genes.names.emplace_back(names.GetView(i));
  genes_ = share_axis(std::move(genes));
  file_.require_unchanged();
}

Annotations::Annotations(const StoredTree& file)
    : file_(file),
      layer_(kNoLayer),
      obs_(file, "obs", std::nullopt),
      n_rows_(obs_.n_rows()),
      n_cols_(0),
      genes_(share_axis({})) {
  file_.require_unchanged();
}

matrix::FixedColumn Annotations::obs_column(const std::string& name) const {
  file_.require_unchanged();
  const auto& columns = obs_.columns();
  if (name != "_index" && std::find(columns.begin(), columns.end(), name) == columns.end())
    throw_error(ErrorKind::kNoSuchKey, file_.path(), "no obs column '{}'{}", name,
                suggestion(name, columns));
  const auto column =
      name == "_index" ? obs_.read_index(0, n_rows_) : obs_.read_column(name, 0, n_rows_);
  file_.require_unchanged();
  return matrix::make_fixed_column(name, arrow::ChunkedArray(column));
}

std::shared_ptr<arrow::Table> Annotations::read_var() const {
  if (var_) {
    auto table = var_->read(0, n_cols_);
    file_.require_unchanged();
    return table;
  }
  arrow::StringBuilder builder;
  std::shared_ptr<arrow::Array> names;
  arrow::Status status = builder.AppendValues(genes_->names);
  if (status.ok()) status = builder.Finish(&names);
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString(), file_.path());
  return arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8())}), {names});
}

std::shared_ptr<arrow::Table> Annotations::read_obs(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > n_rows_)
    throw_error(ErrorKind::kOutOfRange, file_.path(), "obs rows out of range: [{}, {}), rows {}",
                begin, end, n_rows_);
  file_.require_unchanged();
  auto table = obs_.read(begin, end);
  file_.require_unchanged();
  return table;
}

// Threads that ask at once find the same number.
std::uint64_t Annotations::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  std::vector<std::string> groups{"obs"};
  if (layer_ != kNoLayer) groups.insert(groups.begin(), file_.find_field(layer_) ? "obsm" : layer_);
  if (var_) groups.push_back(var_->name());
  std::ranges::copy(obs_.groups_beside(), std::back_inserter(groups));
  const std::uint64_t found = file_.fingerprint(groups, layer_name(layer_));
  file_.require_unchanged();
  return fingerprint_ = found;
}

// Of X: what is recorded beside it says nothing of layers and raw.
Processing Annotations::processing() const {
  if (layer_ != "X") return {};
  Processing processing;
  if (file_.find(kProcessingPath)) {
    const ColumnReader reader(file_, kProcessingPath);
    const auto texts = reader.length() == 1 ? reader.read(0, 1) : nullptr;
    if (!texts || texts->type_id() != arrow::Type::STRING || texts->IsNull(0))
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "'{}' must be an array of one text; remove it where you changed X",
                  kProcessingPath);
    processing =
        read_processing(static_cast<const arrow::StringArray&>(*texts).GetString(0), file_.path());
  }
  if (file_.find("uns/log1p")) {
    // scanpy's own default, the natural one, is None: no array, or one that says it is null.
    const auto base = file_.find("uns/log1p/base");
    const bool has_base = base && base->text_attribute("encoding-type") != "null";
    processing = with_log1p_mark(processing, has_base);
  }
  file_.require_unchanged();
  return processing;
}

}  // namespace cellfeed::format::anndata
