#include "cellfeed/format/parquet/gene_ids.h"

#include <arrow/api.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/parquet/column_types.h"
#include "cellfeed/format/parquet/list_items.h"
#include "cellfeed/format/parquet/obs_table.h"
#include "cellfeed/matrix/cast_array.h"

namespace cellfeed::format::parquet_table {
namespace {

constexpr std::array<std::string_view, 5> kIdNames{"token_id", "gene_token", "gene_index",
                                                   "soma_joinid", "id"};
// Beyond that ids are no numbers of genes, such as hashes: a list of all would fill the memory.
constexpr std::int64_t kMostIds = 1 << 22;

// Where a table of genes has ids and names.
struct GeneColumns {
  TableColumns columns;
  int ids = -1;    // -1: the numbers of the rows
  int names = -1;  // -1: the ids, as text
};

GeneColumns find_gene_columns(const TableFile& table) {
  OpenOptions options;
  options.layer = kNoLayer;
  GeneColumns found{.columns = find_columns(table, options)};
  const auto type = [&](int c) -> const arrow::DataType& {
    return *table.schema().field(c)->type();
  };
  std::vector<std::string> known, integers;
  for (const int c : found.columns.obs) {
    const std::string& name = table.schema().field(c)->name();
    if (found.names < 0 && holds_texts(type(c))) found.names = c;
    if (!arrow::is_integer(type(c).id())) continue;
    integers.push_back(name);
    if (std::ranges::find(kIdNames, name) == kIdNames.end()) continue;
    known.push_back(name);
    found.ids = c;
  }
  const int index = found.columns.index;
  if (index >= 0 && holds_texts(type(index))) found.names = index;
  if (known.size() > 1)
    throw_error(ErrorKind::kInvalidArgument, table.path(),
                "several columns may hold the ids of genes: {}; keep one", fmt::join(known, ", "));
  if (!known.empty()) return found;
  if (index >= 0 && arrow::is_integer(type(index).id()))
    found.ids = index;
  else if (!integers.empty())
    throw_error(ErrorKind::kInvalidArgument, table.path(),
                "which column holds the ids of genes is not known: there are the integers {}, and "
                "known names are {}; rename one, or leave integers out where row i is gene i",
                fmt::join(integers, ", "), fmt::join(kIdNames, ", "));
  return found;
}

std::shared_ptr<arrow::Array> column_of(const TableFile& file, const arrow::Table& table,
                                        const GeneColumns& found, int column) {
  const auto chunked = column == found.columns.index
                           ? table.column(0)
                           : table.GetColumnByName(file.schema().field(column)->name());
  const auto joined = arrow::Concatenate(chunked->chunks());
  check_arrow(joined.status());
  return *joined;
}

std::vector<std::string> texts_of(const arrow::Array& array, const std::string& path) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < array.length(); ++i) {
    auto scalar = array.GetScalar(i);
    check_arrow(scalar.status());
    if ((*scalar)->is_valid && (*scalar)->type->id() == arrow::Type::DICTIONARY)
      scalar = static_cast<const arrow::DictionaryScalar&>(**scalar).GetEncodedValue();
    check_arrow(scalar.status());
    if (!(*scalar)->is_valid)
      throw_error(ErrorKind::kCorruptData, path, "a gene has no name: row {}", i);
    texts.push_back((*scalar)->ToString());
  }
  return texts;
}

std::shared_ptr<arrow::Array> array_of(const std::vector<std::string>& texts) {
  arrow::StringBuilder builder;
  check_arrow(builder.AppendValues(texts));
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

}  // namespace

std::shared_ptr<arrow::Table> table_of_names(const std::vector<std::string>& names) {
  return arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8())}),
                            {array_of(names)});
}

GeneIds::GeneIds(const TableFile& file, const TableColumns& columns, const std::string& var_path) {
  const bool has_names = holds_texts(*item_type(*file.schema().field(columns.genes)->type()));
  if (!var_path.empty())
    read_table(var_path, has_names);
  else if (has_names)
    collect_names(file, columns.genes);
  else
    number_ids(file, columns.genes);
  if (has_names) index_names(has_table_ ? var_path : file.path());
  if (!table_) table_ = table_of_names(names_);
}

void GeneIds::read_table(const std::string& path, bool has_names) {
  has_table_ = true;
  const TableFile file(path);
  if (file.n_rows() > kMostIds)
    throw_error(ErrorKind::kInvalidArgument, path, "is a table of {} rows, which cannot be genes",
                file.n_rows());
  const GeneColumns found = find_gene_columns(file);
  const ObsTable obs(file, found.columns);
  table_ = obs.read(0, file.n_rows());
  std::vector<std::int64_t> ids(static_cast<std::size_t>(file.n_rows()));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  if (found.ids >= 0) {
    // Those of an index are texts by now.
    const auto array = matrix::cast_array(
        column_of(file, *table_, found, found.ids), arrow::int64(), [&](const std::string& why) {
          throw_error(ErrorKind::kCorruptData, path, "an id is no whole number: {}", why);
        });
    const auto& whole = static_cast<const arrow::Int64Array&>(*array);
    for (std::int64_t i = 0; i < whole.length(); ++i) {
      if (whole.IsNull(i))
        throw_error(ErrorKind::kCorruptData, path, "a gene has no id: row {}", i);
      ids[static_cast<std::size_t>(i)] = whole.Value(i);
    }
  }
  if (found.names >= 0)
    names_ = texts_of(*column_of(file, *table_, found, found.names), path);
  else
    for (const std::int64_t id : ids) names_.push_back(fmt::format("{}", id));
  const auto named = table_->SetColumn(0, arrow::field("_index", arrow::utf8()),
                                       std::make_shared<arrow::ChunkedArray>(array_of(names_)));
  check_arrow(named.status());
  table_ = *named;
  if (has_names) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kMostIds)
      throw_error(ErrorKind::kInvalidArgument, path,
                  "the id of a gene must be from 0 to {}: row {}, id {}", kMostIds - 1, i, ids[i]);
    const auto id = static_cast<std::size_t>(ids[i]);
    if (id >= columns_of_ids_.size()) columns_of_ids_.resize(id + 1, kNoGene);
    if (columns_of_ids_[id] != kNoGene)
      throw_error(ErrorKind::kInvalidArgument, path, "two genes have the id {}: rows {} and {}", id,
                  columns_of_ids_[id], i);
    columns_of_ids_[id] = static_cast<std::int32_t>(i);
  }
}

void GeneIds::number_ids(const TableFile& file, int column) {
  const int leaf = file.leaves(column)[0];
  std::int64_t most = -1;
  for (int g = 0; g < file.n_groups(); ++g) {
    const ChunkStatistics known = file.statistics(g, leaf);
    if (known.n_missing == file.chunk(g, leaf).n_values) continue;
    if (known.largest)
      most = std::max(most, *known.largest);
    else
      for_each_items(file, g, column, [&](const arrow::Array& items) {
        for_each_id(items, [&](std::int64_t id) { most = std::max(most, id); });
      });
  }
  if (most >= kMostIds)
    throw_error(ErrorKind::kInvalidArgument, file.path(),
                "ids of genes in column '{}' go up to {}: name the table of genes with var",
                file.schema().field(column)->name(), most);
  n_ids_ = most + 1;
  for (std::int64_t id = 0; id < n_ids_; ++id) names_.push_back(fmt::format("{}", id));
}

void GeneIds::collect_names(const TableFile& file, int column) {
  std::set<std::string, std::less<>> all;
  for (int g = 0; g < file.n_groups(); ++g)
    for_each_items(file, g, column, [&](const arrow::Array& items) {
      for_each_text(items, [&](std::string_view name) {
        if (all.find(name) == all.end()) all.emplace(name);
      });
      if (std::ssize(all) > kMostIds)
        throw_error(ErrorKind::kInvalidArgument, file.path(),
                    "column '{}' holds more than {} names, which cannot be genes",
                    file.schema().field(column)->name(), kMostIds);
    });
  names_.assign(all.begin(), all.end());
}

void GeneIds::index_names(const std::string& path) {
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!columns_of_names_.try_emplace(names_[i], static_cast<std::int32_t>(i)).second)
      throw_error(ErrorKind::kInvalidArgument, path,
                  "two genes have the name '{}', so that lists of names cannot tell them apart",
                  names_[i]);
}

}  // namespace cellfeed::format::parquet_table
