#include "cellfeed/format/shard/obs/obs_schema.h"

#include <arrow/api.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/matrix/cast_array.h"

namespace cellfeed::format::shard {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

const arrow::DictionaryType& as_dictionary(const TypePtr& type) {
  return static_cast<const arrow::DictionaryType&>(*type);
}

bool is_dictionary(const TypePtr& type) { return type->id() == arrow::Type::DICTIONARY; }
bool is_stored_as_text(const TypePtr& type) {
  return type->id() == arrow::Type::STRING || type->id() == arrow::Type::LARGE_STRING ||
         type->id() == arrow::Type::STRING_VIEW;
}

// A column's type as shards keep it.
TypePtr stored_type(const TypePtr& type) {
  if (is_stored_as_text(type)) return arrow::utf8();
  if (type->id() == arrow::Type::HALF_FLOAT) return arrow::float32();
  if (is_dictionary(type))
    return arrow::dictionary(arrow::int32(), stored_type(as_dictionary(type).value_type()),
                             as_dictionary(type).ordered());
  return type;
}

TypePtr source_file_type() { return arrow::dictionary(arrow::int32(), arrow::utf8()); }

bool is_source_column(const std::string& name) {
  return name == kSourceFileColumn || name == kSourceRowColumn;
}

void check_source_columns(const arrow::Schema& schema, const std::string& source) {
  const auto file = schema.GetFieldByName(kSourceFileColumn);
  const auto row = schema.GetFieldByName(kSourceRowColumn);
  if (!file && !row) return;
  const bool fits = file && row && row->type()->id() == arrow::Type::INT64 &&
                    stored_type(file->type())->Equals(*source_file_type());
  if (!fits)
    throw_invalid("obs columns '{}' and '{}' of {} are not those of a shard directory: rename them",
                  kSourceFileColumn, kSourceRowColumn, source);
}

std::shared_ptr<arrow::ChunkedArray> missing_column(const TypePtr& type, std::int64_t n) {
  return std::make_shared<arrow::ChunkedArray>(
      arrow_value(arrow::MakeArrayOfNull(type, n), "", ErrorKind::kInternal));
}

std::shared_ptr<arrow::Array> cast_to(const std::shared_ptr<arrow::Array>& array,
                                      const TypePtr& type, const std::string& column) {
  return matrix::cast_array(array, type, [&](const std::string& why) {
    throw Error(ErrorKind::kPrecision, fmt::format("obs column '{}' cannot be stored as {}: {}",
                                                   column, type->ToString(), why));
  });
}

// Codes as int32 and categories as the target's.
std::shared_ptr<arrow::Array> cast_to_dictionary(const std::shared_ptr<arrow::Array>& array,
                                                 const TypePtr& type, const std::string& column) {
  if (!is_dictionary(array->type()))
    throw Error(ErrorKind::kInternal,
                fmt::format("obs column '{}' is not categorical in every piece", column));
  const auto& target = as_dictionary(type);
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*array);
  const auto codes = cast_to(dictionary.indices(), arrow::int32(), column);
  const auto categories = cast_to(dictionary.dictionary(), target.value_type(), column);
  return arrow_value(arrow::DictionaryArray::FromArrays(type, codes, categories), "",
                     ErrorKind::kCorruptData);
}

std::shared_ptr<arrow::ChunkedArray> cast_column(const arrow::ChunkedArray& column,
                                                 const TypePtr& type, const std::string& name) {
  arrow::ArrayVector chunks;
  for (const auto& chunk : column.chunks())
    chunks.push_back(is_dictionary(type) ? cast_to_dictionary(chunk, type, name)
                                         : cast_to(chunk, type, name));
  return std::make_shared<arrow::ChunkedArray>(std::move(chunks), type);
}

std::shared_ptr<arrow::ChunkedArray> source_files(const std::string& name, std::int64_t n) {
  const auto codes =
      arrow_value(arrow::MakeArrayFromScalar(arrow::Int32Scalar(0), n), "", ErrorKind::kInternal);
  const auto names = arrow_value(arrow::MakeArrayFromScalar(arrow::StringScalar(name), 1), "",
                                 ErrorKind::kInternal);
  return std::make_shared<arrow::ChunkedArray>(
      std::make_shared<arrow::DictionaryArray>(source_file_type(), codes, names));
}

std::shared_ptr<arrow::ChunkedArray> source_rows_column(std::span<const std::int64_t> rows) {
  arrow::Int64Builder builder;
  if (!rows.empty()) {
    check_arrow(builder.AppendValues(rows.data(), static_cast<std::int64_t>(rows.size())), "",
                ErrorKind::kInternal);
  }
  return std::make_shared<arrow::ChunkedArray>(
      arrow_value(builder.Finish(), "", ErrorKind::kInternal));
}

}  // namespace

std::shared_ptr<arrow::Schema> stored_obs_schema(const arrow::Schema& schema,
                                                 const std::string& source) {
  check_source_columns(schema, source);
  arrow::FieldVector fields{arrow::field(kIndexColumn, arrow::utf8(), /*nullable=*/false)};
  for (const auto& field : schema.fields()) {
    if (field->name() == kIndexColumn || is_source_column(field->name())) continue;
    if (arrow::is_nested(field->type()->id()))
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("obs column '{}' of {} is nested: {}; drop it or flatten it",
                              field->name(), source, field->type()->ToString()));
    // A column without any value in any source is kept as missing text.
    const TypePtr type =
        field->type()->id() == arrow::Type::NA ? arrow::utf8() : stored_type(field->type());
    fields.push_back(arrow::field(field->name(), type, /*nullable=*/true, field->metadata()));
  }
  fields.push_back(arrow::field(kSourceFileColumn, source_file_type()));
  fields.push_back(arrow::field(kSourceRowColumn, arrow::int64()));
  return arrow::schema(std::move(fields), schema.metadata());
}

std::shared_ptr<arrow::Table> conform_obs(const std::shared_ptr<arrow::Table>& obs,
                                          const std::shared_ptr<arrow::Schema>& schema,
                                          const std::string& source_name,
                                          std::span<const std::int64_t> source_rows) {
  const std::int64_t n = obs->num_rows();
  if (n != static_cast<std::int64_t>(source_rows.size()))
    throw_invalid("source_rows must name every row of obs: {} for {}", source_rows.size(), n);
  arrow::ChunkedArrayVector columns;
  for (const auto& field : schema->fields()) {
    const auto& name = field->name();
    if (const auto found = obs->GetColumnByName(name))
      columns.push_back(cast_column(*found, field->type(), name));
    else if (name == kSourceFileColumn)
      columns.push_back(source_files(source_name, n));
    else if (name == kSourceRowColumn)
      columns.push_back(source_rows_column(source_rows));
    else
      columns.push_back(missing_column(field->type(), n));
  }
  return arrow::Table::Make(schema, std::move(columns), n);
}

}  // namespace cellfeed::format::shard
