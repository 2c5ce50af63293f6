#include "cellfeed/convert/inputs/table_union.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/cast_array.h"
#include "cellfeed/matrix/obs_union.h"
#include "cellfeed/matrix/one_array.h"

namespace cellfeed::convert {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;
using ArrayPtr = std::shared_ptr<arrow::Array>;

const arrow::DictionaryType* as_dictionary(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY ? static_cast<const arrow::DictionaryType*>(&type)
                                              : nullptr;
}

ArrayPtr one_chunk(const arrow::ChunkedArray& column, std::string_view name) {
  return matrix::check_arrow(matrix::one_array(column),
                             fmt::format("join the pieces of column '{}'", name));
}

std::string type_text(const arrow::DataType& type) {
  const auto known = matrix::value_type_of(type);
  return known ? matrix::value_type_name(*known) : type.ToString();
}

ArrayPtr cast_values(const ArrayPtr& array, const TypePtr& type, std::string_view name,
                     const std::string& path) {
  return matrix::cast_array(array, type, [&](const std::string& why) {
    throw_error(ErrorKind::kPrecision, path,
                "column '{}' has a value of {} that does not fit {}, the type which holds the "
                "numbers of all files: {}; give the files one type, make it text, or drop it",
                name, type_text(*array->type()), type_text(*type), why);
  });
}

// pandas' choice, so that categoricals come back with the code type that anndata writes.
TypePtr code_type(std::int64_t n_categories) {
  if (n_categories < 128) return arrow::int8();
  if (n_categories < 32768) return arrow::int16();
  return arrow::int32();
}

}  // namespace

struct TableUnion::Column {
  struct Origin {
    TypePtr type;         // in that source; null: the source lacks the column
    ArrayPtr categories;  // of that source, where it is categorical there
  };
  std::string name;
  std::vector<Origin> origins;
  // What the sources say of the column, such as that it may hold missing values.
  std::shared_ptr<const arrow::KeyValueMetadata> metadata;
  // Of the union:
  matrix::UnitedObs united;
  TypePtr value_type;   // of values, or of categories
  ArrayPtr categories;  // null: plain values
  std::unordered_map<matrix::Category, std::int32_t> codes;

  void unite(const std::string& what, const std::vector<std::string>& paths);
  bool is_categorical() const { return categories != nullptr; }
  TypePtr type() const {
    if (!is_categorical()) return value_type;
    return arrow::dictionary(code_type(categories->length()), value_type, united.ordered);
  }
  ArrayPtr conform(const ArrayPtr& array, std::size_t source, const std::string& path) const;
  ArrayPtr conform_labels(const arrow::DictionaryArray& array, std::size_t source) const;
  ArrayPtr nulls(std::int64_t n) const;

 private:
  // False where the types are of a kind that cannot be united, but all the same.
  bool describe(const std::string& what, const std::vector<std::string>& paths,
                std::vector<matrix::ObsDescription>& descriptions) const;
};

bool TableUnion::Column::describe(const std::string& what, const std::vector<std::string>& paths,
                                  std::vector<matrix::ObsDescription>& descriptions) const {
  matrix::CategoryReader reader(what);
  std::size_t first = origins.size();
  for (std::size_t s = 0; s < origins.size(); ++s) {
    const TypePtr& type = origins[s].type;
    if (!type) continue;
    if (first == origins.size()) first = s;
    const auto* dictionary = as_dictionary(*type);
    const auto value = matrix::value_type_of(dictionary ? *dictionary->value_type() : *type);
    if (!value) {
      for (std::size_t other = 0; other < origins.size(); ++other)
        if (origins[other].type && !origins[other].type->Equals(*type))
          throw_error(ErrorKind::kInvalidArgument, paths[s],
                      "{} is {} here, which goes with no other type, but {} in {}; convert or "
                      "drop it in one of the files",
                      what, type->ToString(), origins[other].type->ToString(), paths[other]);
      if (dictionary)
        throw_error(ErrorKind::kUnsupported, paths[s],
                    "{} has categories of a type that cannot "
                    "be kept: {}; make them text",
                    what, type->ToString());
      return false;
    }
    matrix::ObsDescription& description = descriptions[s];
    description.type = *value;
    if (dictionary) {
      description.form = matrix::ObsForm::kCategorical;
      description.ordered = dictionary->ordered();
      description.categories = reader.read(origins[s].categories, paths[s]);
    } else if (value->kind == matrix::ValueKind::kText) {
      description.form = matrix::ObsForm::kText;
    }
  }
  return true;
}

void TableUnion::Column::unite(const std::string& what, const std::vector<std::string>& paths) {
  origins.resize(paths.size());
  std::vector<matrix::ObsDescription> descriptions(paths.size());
  if (!describe(what, paths, descriptions)) {
    for (const Origin& origin : origins)
      if (origin.type) value_type = origin.type;
    return;
  }
  std::vector<const matrix::ObsDescription*> pointers(paths.size(), nullptr);
  for (std::size_t s = 0; s < paths.size(); ++s)
    if (origins[s].type) pointers[s] = &descriptions[s];
  const bool any_dictionary = std::any_of(origins.begin(), origins.end(), [](const Origin& origin) {
    return origin.categories != nullptr;
  });
  united = matrix::unite_obs(what, pointers, paths);
  value_type = matrix::arrow_type_of(united.type);
  // Labels of a text column are not known before its last row is read.
  if (united.form != matrix::ObsForm::kCategorical || !any_dictionary) return;
  categories = matrix::make_category_array(united.categories, united.type);
  for (const matrix::Category& category : united.categories)
    codes.emplace(category, static_cast<std::int32_t>(codes.size()));
}

ArrayPtr TableUnion::Column::nulls(std::int64_t n) const {
  constexpr const char* kWhat = "fill a column";
  if (!is_categorical()) return matrix::check_arrow(arrow::MakeArrayOfNull(value_type, n), kWhat);
  const auto indices =
      matrix::check_arrow(arrow::MakeArrayOfNull(code_type(categories->length()), n), kWhat);
  return matrix::check_arrow(arrow::DictionaryArray::FromArrays(type(), indices, categories),
                             kWhat);
}

ArrayPtr TableUnion::Column::conform_labels(const arrow::DictionaryArray& array,
                                            std::size_t source) const {
  constexpr const char* kWhat = "recode categories";
  std::shared_ptr<const matrix::Recoding> map = united.recodings[source];
  // A piece may carry its own subset or order of categories (Parquet does); map those by value.
  if (!array.dictionary()->Equals(*origins[source].categories)) {
    const auto own = matrix::read_categories(*array.dictionary(), "column '" + name + "'");
    auto by_value = std::make_shared<matrix::Recoding>();
    for (const matrix::Category& category : matrix::convert_categories(own, united.type, name)) {
      const auto at = codes.find(category);
      if (at == codes.end())
        throw Error(ErrorKind::kInternal,
                    fmt::format("a piece of column '{}' has a category that its source does not "
                                "list: {}",
                                name, matrix::category_text(category)));
      by_value->push_back(at->second);
    }
    map = by_value;
  }
  ArrayPtr indices = array.indices();
  if (map) {
    arrow::Int32Builder builder;
    matrix::check_arrow(builder.Reserve(array.length()), kWhat);
    for (std::int64_t i = 0; i < array.length(); ++i) {
      if (array.IsNull(i))
        builder.UnsafeAppendNull();
      else
        builder.UnsafeAppend((*map)[static_cast<std::size_t>(array.GetValueIndex(i))]);
    }
    indices = matrix::check_arrow(builder.Finish(), kWhat);
  }
  indices =
      matrix::check_arrow(arrow::compute::Cast(*indices, code_type(categories->length())), kWhat);
  return matrix::check_arrow(arrow::DictionaryArray::FromArrays(type(), indices, categories),
                             kWhat);
}

ArrayPtr TableUnion::Column::conform(const ArrayPtr& array, std::size_t source,
                                     const std::string& path) const {
  const bool is_dictionary = as_dictionary(*array->type()) != nullptr;
  if (array->null_count() == array->length() && !array->type()->Equals(*type()))
    return nulls(array->length());
  if (is_categorical())
    return conform_labels(static_cast<const arrow::DictionaryArray&>(*array), source);
  const ArrayPtr plain =
      is_dictionary ? matrix::check_arrow(
                          arrow::compute::Cast(*array, as_dictionary(*array->type())->value_type()),
                          fmt::format("spell out the categories of '{}'", name))
                    : array;
  return cast_values(plain, value_type, name, path);
}

TableUnion::TableUnion(std::string what) : what_(std::move(what)) {}
TableUnion::~TableUnion() = default;

TableUnion::Column* TableUnion::find(const std::string& name) const {
  for (const auto& column : columns_)
    if (column->name == name) return column.get();
  return nullptr;
}

void TableUnion::add_source(const arrow::Table& sample, const std::string& path) {
  const std::size_t source = paths_.size();
  if (source == 0) metadata_ = sample.schema()->metadata();
  paths_.push_back(path);
  for (int i = 0; i < sample.num_columns(); ++i) {
    const auto& field = *sample.field(i);
    Column* column = find(field.name());
    if (column == nullptr) {
      columns_.push_back(std::make_unique<Column>());
      column = columns_.back().get();
      column->name = field.name();
    }
    if (field.metadata())
      column->metadata =
          column->metadata ? field.metadata()->Merge(*column->metadata) : field.metadata();
    column->origins.resize(source + 1);
    column->origins[source].type = field.type();
    if (as_dictionary(*field.type()))
      column->origins[source].categories =
          static_cast<const arrow::DictionaryArray&>(*one_chunk(*sample.column(i), field.name()))
              .dictionary();
  }
}

void TableUnion::finish() {
  for (auto& column : columns_)
    column->unite(fmt::format("{} column '{}'", what_, column->name), paths_);
}

std::shared_ptr<arrow::Schema> TableUnion::schema() const {
  arrow::FieldVector fields;
  for (const auto& column : columns_)
    fields.push_back(
        arrow::field(column->name, column->type(), /*nullable=*/true, column->metadata));
  return arrow::schema(std::move(fields), metadata_);
}

std::shared_ptr<arrow::Table> TableUnion::conform(const arrow::Table& rows,
                                                  std::size_t source) const {
  arrow::ArrayVector arrays;
  for (const auto& column : columns_) {
    const auto chunked = rows.GetColumnByName(column->name);
    arrays.push_back(
        chunked ? column->conform(one_chunk(*chunked, column->name), source, paths_[source])
                : column->nulls(rows.num_rows()));
  }
  return arrow::Table::Make(schema(), std::move(arrays), rows.num_rows());
}

std::shared_ptr<arrow::Table> drop_columns(const arrow::Table& table,
                                           const std::vector<std::string>& names) {
  std::vector<int> kept;
  for (int i = 0; i < table.num_columns(); ++i)
    if (std::find(names.begin(), names.end(), table.field(i)->name()) == names.end())
      kept.push_back(i);
  return matrix::check_arrow(table.SelectColumns(kept), "select columns");
}

}  // namespace cellfeed::convert
