#include "cellfeed/format/parquet/table_columns.h"

#include <arrow/api.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/parquet/column_types.h"

namespace cellfeed::format::parquet_table {
namespace {

constexpr std::array<std::string_view, 4> kGeneNames{"genes", "gene_ids", "gene_indices",
                                                     "indices"};
constexpr std::array<std::string_view, 5> kValueNames{"expressions", "expression", "values",
                                                      "counts", "data"};
constexpr std::array<std::string_view, 2> kTokenNames{"input_ids", "tokens"};

bool is_one_of(std::span<const std::string_view> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

class ColumnFinder {
 public:
  ColumnFinder(const TableFile& file, const OpenOptions& options)
      : file_(file), schema_(file.schema()), options_(options) {}

  TableColumns find() {
    read_pandas_note();
    if (options_.layer == kNoLayer) {
      found_.kind = TableKind::kObs;
    } else if (find_lists()) {
      found_.kind = TableKind::kLists;
    } else {
      found_.kind = TableKind::kWide;
      find_wide();
    }
    find_obs();
    return std::move(found_);
  }

 private:
  const std::string& name(int column) const { return schema_.field(column)->name(); }
  const arrow::DataType& type(int column) const { return *schema_.field(column)->type(); }
  bool is_named_obs(int column) const {
    return std::ranges::find(options_.choice.table.obs_columns, name(column)) !=
           options_.choice.table.obs_columns.end();
  }
  bool is_index_note(int column) const {
    return std::ranges::find(noted_indexes_, column) != noted_indexes_.end();
  }
  template <typename Is>
  std::vector<int> columns_that(const Is& is) const {
    std::vector<int> columns;
    for (int c = 0; c < schema_.num_fields(); ++c)
      if (is(c)) columns.push_back(c);
    return columns;
  }
  std::vector<std::string> names_of(const std::vector<int>& columns) const {
    std::vector<std::string> names;
    for (const int c : columns) names.push_back(name(c));
    return names;
  }

  void read_pandas_note();
  void note_index(const nlohmann::json& entry);
  bool find_lists();
  int named_column(const std::string& wanted, const char* option,
                   bool (*fits)(const arrow::DataType&), const char* what) const;
  int known_column(std::span<const std::string_view> known, const char* option,
                   bool (*fits)(const arrow::DataType&), const char* what) const;
  void refuse_unnamed_lists() const;
  void find_wide();
  void find_obs();

  const TableFile& file_;
  const arrow::Schema& schema_;
  const OpenOptions& options_;
  std::vector<int> noted_indexes_;
  TableColumns found_;
};

void ColumnFinder::read_pandas_note() {
  if (const auto note = file_.note("pandas")) {
    require_shallow_json(*note, file_.path());
    const auto json = nlohmann::json::parse(*note, nullptr, false);
    if (json.is_discarded())
      throw Error(ErrorKind::kCorruptData, "what pandas noted in it is no JSON", file_.path());
    if (json.is_object() && json.contains("index_columns") && json["index_columns"].is_array())
      for (const auto& entry : json["index_columns"]) note_index(entry);
  }
  if (noted_indexes_.size() == 1 && names_cells(type(noted_indexes_[0])))
    found_.index = noted_indexes_[0];
  if (const int own = schema_.GetFieldIndex("_index");
      noted_indexes_.empty() && own >= 0 && names_cells(type(own)))
    found_.index = own;
}

void ColumnFinder::note_index(const nlohmann::json& entry) {
  if (entry.is_string()) {
    const int column = schema_.GetFieldIndex(entry.get<std::string>());
    if (column >= 0) noted_indexes_.push_back(column);
    return;
  }
  if (!entry.is_object() || !entry.contains("kind") || entry["kind"] != "range") return;
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return entry.contains(key) && entry[key].is_number_integer() ? entry[key].get<std::int64_t>()
                                                                 : otherwise;
  };
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  found_.first_number = std::clamp(number("start", 0), -kMost, kMost);
  found_.number_step = std::clamp(number("step", 1), -kMost, kMost);
}

int ColumnFinder::named_column(const std::string& wanted, const char* option,
                               bool (*fits)(const arrow::DataType&), const char* what) const {
  const auto same = columns_that([&](int c) { return name(c) == wanted; });
  if (same.empty())
    throw_error(ErrorKind::kNoSuchKey, file_.path(), "has no column '{}', which {} names{}", wanted,
                option, suggestion(wanted, names_of(columns_that([](int) { return true; }))));
  if (same.size() > 1)
    throw_error(ErrorKind::kInvalidArgument, file_.path(), "has {} columns named '{}'", same.size(),
                wanted);
  if (!fits(type(same[0])))
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "column '{}', which {} names, must hold {}: it holds {}", wanted, option, what,
                type(same[0]).ToString());
  return same[0];
}

// -1: there is none.
int ColumnFinder::known_column(std::span<const std::string_view> known, const char* option,
                               bool (*fits)(const arrow::DataType&), const char* what) const {
  const auto found =
      columns_that([&](int c) { return is_one_of(known, name(c)) && fits(type(c)); });
  if (found.size() > 1)
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "several columns may hold {}: {}; say which with {}", what,
                fmt::join(names_of(found), ", "), option);
  return found.empty() ? -1 : found[0];
}

bool ColumnFinder::find_lists() {
  constexpr const char* kOfGenes = "lists of gene ids or names";
  constexpr const char* kOfValues = "lists of numbers";
  const TableOptions& table = options_.choice.table;
  found_.genes = table.genes_column.empty()
                     ? known_column(kGeneNames, "genes_column", holds_gene_lists, kOfGenes)
                     : named_column(table.genes_column, "genes_column", holds_gene_lists, kOfGenes);
  found_.values =
      table.values_column.empty()
          ? known_column(kValueNames, "values_column", holds_value_lists, kOfValues)
          : named_column(table.values_column, "values_column", holds_value_lists, kOfValues);
  if (found_.genes >= 0 && found_.genes == found_.values)
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "genes_column and values_column name one column: '{}'", name(found_.genes));
  if (found_.genes >= 0 && found_.values >= 0) return true;
  if (found_.genes < 0 && found_.values < 0) {
    refuse_unnamed_lists();
    return false;
  }
  const bool lacks_values = found_.values < 0;
  throw_error(ErrorKind::kInvalidArgument, file_.path(),
              "column '{}' holds {}, and no column with {} has a known name ({}): name it with {}",
              name(lacks_values ? found_.genes : found_.values),
              lacks_values ? kOfGenes : kOfValues, lacks_values ? kOfValues : kOfGenes,
              lacks_values ? fmt::format("{}", fmt::join(kValueNames, ", "))
                           : fmt::format("{}", fmt::join(kGeneNames, ", ")),
              lacks_values ? "values_column" : "genes_column");
}

void ColumnFinder::refuse_unnamed_lists() const {
  const auto genes = columns_that([&](int c) { return holds_gene_lists(type(c)); });
  for (const int c : genes)
    if (is_one_of(kTokenNames, name(c)))
      throw_error(ErrorKind::kUnsupported, file_.path(),
                  "column '{}' holds tokens without values, as made for one model: which genes a "
                  "cell has can be read from it, and not how much of each; open the counts that "
                  "it was made of",
                  name(c));
  const auto values = columns_that([&](int c) { return holds_value_lists(type(c)); });
  if (values.empty()) return;
  if (genes.empty() || (genes.size() == 1 && genes == values))
    throw_error(ErrorKind::kUnsupported, file_.path(),
                "column '{}' holds lists of numbers, and no column has the genes that they are of: "
                "a matrix in one column, as Merlin writes it, cannot be read. If numeric columns "
                "are the genes, write the table without '{}'; layer None reads obs alone",
                name(values[0]), name(values[0]));
  throw_error(ErrorKind::kInvalidArgument, file_.path(),
              "holds lists ({}), of which none has a known name: name the columns of genes and "
              "values with genes_column and values_column (known are {} and {})",
              fmt::join(names_of(columns_that([&](int c) {
                          return holds_gene_lists(type(c)) || holds_value_lists(type(c));
                        })),
                        ", "),
              fmt::join(kGeneNames, ", "), fmt::join(kValueNames, ", "));
}

void ColumnFinder::find_wide() {
  if (!options_.choice.table.var.empty())
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "var is for tables of lists, and this has a column for each gene: leave it out");
  for (int c = 0; c < schema_.num_fields(); ++c) {
    if (is_named_obs(c)) continue;
    if (holds_times(type(c)))
      throw_error(
          ErrorKind::kUnsupported, file_.path(),
          "column '{}' holds times ({}): a table of what was measured at one time after "
          "another is a series (cellfeed.series.build_series); if its rows are cells, write "
          "it without the column, or the times as texts",
          name(c), type(c).ToString());
    if (is_index_note(c) || c == found_.index) continue;
    if (holds_numbers(type(c))) found_.wide.push_back(c);
  }
  if (found_.wide.empty())
    throw_error(ErrorKind::kInvalidArgument, file_.path(),
                "has no columns that could be genes: neither lists of genes and values, nor a "
                "numeric column that is not named as one of obs; there are: {}",
                fmt::join(names_of(columns_that([](int c) { return c < 20; })), ", "));
}

void ColumnFinder::find_obs() {
  std::vector<std::string> seen;
  for (int c = 0; c < schema_.num_fields(); ++c) {
    if (c == found_.index || c == found_.genes || c == found_.values ||
        std::ranges::find(found_.wide, c) != found_.wide.end())
      continue;
    if (!obs_type(type(c))) {
      found_.left_out.push_back(fmt::format("{} ({})", name(c), type(c).ToString()));
      continue;
    }
    if (std::ranges::find(seen, name(c)) != seen.end() || name(c) == "_index")
      throw_error(ErrorKind::kInvalidArgument, file_.path(),
                  "two columns of obs have the name '{}': rename one", name(c));
    seen.push_back(name(c));
    found_.obs.push_back(c);
  }
}

}  // namespace

TableColumns find_columns(const TableFile& file, const OpenOptions& options) {
  return ColumnFinder(file, options).find();
}

}  // namespace cellfeed::format::parquet_table
