// Dataframe: obs or var of an AnnData file.
#include "cellfeed/format/anndata/dataframe.h"

#include <arrow/api.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/uns_categories.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/format/unreadable_columns.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::anndata {
namespace {

constexpr char kLegacyCategories[] = "__categories";

std::shared_ptr<arrow::Array> numbered(std::int64_t begin, std::int64_t end) {
  arrow::StringBuilder builder;
  for (std::int64_t i = begin; i < end; ++i) check_arrow(builder.Append(fmt::format("{}", i)));
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

// An index of categories or numbers as strings.
std::shared_ptr<arrow::Array> as_strings(const std::shared_ptr<arrow::Array>& array) {
  if (array->type_id() == arrow::Type::STRING) return array;
  arrow::StringBuilder builder;
  for (std::int64_t i = 0; i < array->length(); ++i) {
    const auto scalar = array->GetScalar(i);
    check_arrow(scalar.status());
    if (!(*scalar)->is_valid)
      check_arrow(builder.AppendNull());
    else if (array->type_id() == arrow::Type::DICTIONARY) {
      const auto value = static_cast<const arrow::DictionaryScalar&>(**scalar).GetEncodedValue();
      check_arrow(value.status());
      check_arrow(builder.Append((*value)->ToString()));
    } else {
      check_arrow(builder.Append((*scalar)->ToString()));
    }
  }
  std::shared_ptr<arrow::Array> strings;
  check_arrow(builder.Finish(&strings));
  return strings;
}

}  // namespace

Dataframe::Dataframe(const StoredTree& file, std::string name, std::optional<std::int64_t> n_rows)
    : file_(file), name_(std::move(name)) {
  auto node = file_.find(name_);
  if (!node || node->kind() == NodeKind::kOther)
    throw_error(ErrorKind::kCorruptData, file_.path(), "not an AnnData file: there is no '{}'",
                name_);
  if (node->kind() == NodeKind::kGroup)
    open_group(*node);
  else
    open_table(std::move(node));
  require_names();
  n_rows_ = n_rows ? *n_rows : own_length();
  if (has_index_) check_length();
}

void Dataframe::open_group(const StoredNode& group) {
  const auto named = group.text_attribute("_index");
  index_name_ = named.value_or("_index");
  has_index_ = group.has_member(index_name_);
  if (named && !has_index_ && name_ == "obs")
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "'{}' names '{}' as its index, which is not there: the file is damaged, or was "
                "not written whole",
                name_, index_name_);
  if (auto order = group.texts_attribute("column-order")) {
    columns_ = std::move(*order);
  } else {
    for (const std::string& member : group.member_names())
      if (member != index_name_ && member != kLegacyCategories) columns_.push_back(member);
  }
  // Cells may go by their number; genes without names could not be joined with those of any other
  // file.
  if (!has_index_ && name_ != "obs")
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "the genes have no names: '{}' lacks its index '{}'; set adata.var_names and write "
                "the file again",
                name_, index_name_);
}

void Dataframe::open_table(std::unique_ptr<StoredNode> table) {
  if (table->kind() != NodeKind::kTable)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "not an AnnData file: '{}' is neither a group nor a table, but of type {}", name_,
                table->type_text());
  columns_ = table->member_names();
  table_ = std::move(table);
  has_index_ = true;
  index_name_ = columns_.front();
  columns_.erase(columns_.begin());
}

void Dataframe::require_names() const {
  require_name(index_name_);
  std::unordered_set<std::string_view> seen;
  for (const std::string& column : columns_) {
    require_name(column);
    if (!seen.insert(column).second)
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "'{}' lists the column '{}' twice: the file is damaged", name_, column);
  }
}

void Dataframe::require_name(const std::string& column) const {
  if (!is_utf8(column))
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a column of '{}' has a damaged name, which is not UTF-8", name_);
}

std::vector<std::string> Dataframe::groups_beside() const {
  std::vector<std::string> groups;
  if (table_)
    for (const std::string& column : columns_) groups.push_back(path_in_uns(column));
  return groups;
}

void Dataframe::check_length() const {
  const std::int64_t length = reader(index_name_).length();
  if (length != n_rows_)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "'{}' and the matrix differ in length: {} names, {} in the matrix", name_, length,
                n_rows_);
}

std::int64_t Dataframe::own_length() const {
  if (has_index_) return reader(index_name_).length();
  if (!columns_.empty()) return reader(columns_.front()).length();
  throw_error(ErrorKind::kCorruptData, file_.path(),
              "'{}' has neither an index nor a column that says how many cells there are", name_);
}

std::unique_ptr<ColumnReader> Dataframe::make_reader(const std::string& column) const {
  if (table_) return make_member_reader(column);
  return std::make_unique<ColumnReader>(file_, name_ + "/" + column);
}

std::unique_ptr<ColumnReader> Dataframe::make_member_reader(const std::string& column) const {
  auto stored = table_->field(column);
  // anndata leaves the codes of raw as they are.
  const bool may_be_coded = column != index_name_ && (name_ == "obs" || name_ == "var");
  const auto obs = may_be_coded ? file_.find("obs") : nullptr;
  const auto categories =
      obs && obs->kind() == NodeKind::kTable ? categories_in_uns(file_, column, *stored) : nullptr;
  return std::make_unique<ColumnReader>(file_, std::move(stored), categories.get());
}

// No lock is held while a reader is made, which over a link waits for other threads. Of two made at
// once the first is kept.
const ColumnReader& Dataframe::reader(const std::string& column) const {
  {
    const std::lock_guard lock(readers_mutex_);
    if (const auto known = readers_.find(column); known != readers_.end()) return *known->second;
  }
  auto made = make_reader(column);
  const std::lock_guard lock(readers_mutex_);
  return *readers_.try_emplace(column, std::move(made)).first->second;
}

// What throws anything else is damaged: an error where it is read.
std::string Dataframe::why_unreadable(const std::string& column) const {
  try {
    reader(column).read(0, 0);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) return error.what();
  }
  return {};
}

std::vector<UnreadableColumn> Dataframe::unreadable() const {
  {
    const std::lock_guard lock(readers_mutex_);
    if (unreadable_) return *unreadable_;
  }
  std::vector<std::string> reasons(columns_.size());
  wait_side_by_side(std::ssize(columns_), io::is_local(file_.path()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    reasons[at] = why_unreadable(columns_[at]);
  });
  std::vector<UnreadableColumn> found;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (!reasons[i].empty()) found.push_back({columns_[i], std::move(reasons[i])});
  const std::lock_guard lock(readers_mutex_);
  return *(unreadable_ = std::move(found));
}

std::shared_ptr<arrow::Array> Dataframe::read_column(const std::string& column, std::int64_t begin,
                                                     std::int64_t end) const {
  const ColumnReader& stored = reader(column);
  if (stored.length() != n_rows_)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a column has the wrong length: '{}/{}': {} rows, expected {}", name_, column,
                stored.length(), n_rows_);
  return stored.read(begin, end);
}

std::shared_ptr<arrow::Array> Dataframe::read_index(std::int64_t begin, std::int64_t end) const {
  return has_index_ ? as_strings(read_column(index_name_, begin, end)) : numbered(begin, end);
}

std::shared_ptr<arrow::Table> Dataframe::read(std::int64_t begin, std::int64_t end) const {
  std::vector<std::string> columns = columns_;
  std::string left_out;
  for (const UnreadableColumn& column : unreadable()) {
    std::erase(columns, column.name);
    left_out += fmt::format("{}/{}\t{}\n", name_, column.name, column.why);
  }
  arrow::FieldVector fields{arrow::field("_index", arrow::utf8())};
  arrow::ArrayVector arrays(1 + columns.size());
  const auto read_one = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    arrays[at] = i == 0 ? read_index(begin, end) : read_column(columns[at - 1], begin, end);
  };
  wait_side_by_side(std::ssize(arrays), io::is_local(file_.path()), read_one);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    auto field = arrow::field(columns[i], arrays[i + 1]->type());
    if (const auto& mark = reader(columns[i]).nullable_mark(); !mark.empty())
      field = field->WithMetadata(arrow::key_value_metadata({{kNullableKey, mark}}));
    fields.push_back(std::move(field));
  }
  auto metadata = arrow::key_value_metadata({{"index_name", index_name_}});
  if (!left_out.empty()) metadata->Append(kUnreadableKey, left_out);
  return arrow::Table::Make(arrow::schema(std::move(fields), metadata), arrays, end - begin);
}

}  // namespace cellfeed::format::anndata
