#include "cellfeed/format/shard/obs_schema.h"

#include <arrow/api.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"

namespace cellfeed::format::shard {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

const arrow::DictionaryType& as_dictionary(const TypePtr& type) {
  return static_cast<const arrow::DictionaryType&>(*type);
}

bool is_dictionary(const TypePtr& type) { return type->id() == arrow::Type::DICTIONARY; }
bool is_text(const TypePtr& type) {
  return type->id() == arrow::Type::STRING || type->id() == arrow::Type::LARGE_STRING ||
         type->id() == arrow::Type::STRING_VIEW;
}

TypePtr int_type(int bits, bool is_signed) {
  switch (bits) {
    case 8:
      return is_signed ? arrow::int8() : arrow::uint8();
    case 16:
      return is_signed ? arrow::int16() : arrow::uint16();
    case 32:
      return is_signed ? arrow::int32() : arrow::uint32();
    case 64:
      return is_signed ? arrow::int64() : arrow::uint64();
    default:
      return nullptr;
  }
}

// The narrowest number type that holds all values of both; null where there is none.
TypePtr widen_numbers(const TypePtr& a, const TypePtr& b) {
  const auto bits = [](const TypePtr& type) {
    return static_cast<const arrow::FixedWidthType&>(*type).bit_width();
  };
  const bool a_float = arrow::is_floating(a->id());
  const bool b_float = arrow::is_floating(b->id());
  if (a_float && b_float) return bits(a) >= bits(b) ? a : b;
  if (a_float || b_float) {
    const TypePtr& floating = a_float ? a : b;
    return bits(floating) == 32 && bits(a_float ? b : a) <= 16 ? floating : arrow::float64();
  }
  const bool a_signed = arrow::is_signed_integer(a->id());
  const bool b_signed = arrow::is_signed_integer(b->id());
  if (a_signed == b_signed) return int_type(std::max(bits(a), bits(b)), a_signed);
  const int unsigned_bits = a_signed ? bits(b) : bits(a);
  const int signed_bits = a_signed ? bits(a) : bits(b);
  return int_type(std::max(2 * unsigned_bits, signed_bits), true);
}

// A column's type as shards keep it.
TypePtr stored_type(const TypePtr& type) {
  if (is_text(type)) return arrow::utf8();
  if (type->id() == arrow::Type::HALF_FLOAT) return arrow::float32();
  if (is_dictionary(type))
    return arrow::dictionary(arrow::int32(), stored_type(as_dictionary(type).value_type()),
                             as_dictionary(type).ordered());
  return type;
}

// The type that holds both; null where there is none.
TypePtr join_types(const TypePtr& a, const TypePtr& b) {
  if (a->Equals(*b) || b->id() == arrow::Type::NA) return a;
  if (a->id() == arrow::Type::NA) return b;
  if (is_dictionary(a) || is_dictionary(b)) {
    const auto values = [](const TypePtr& type) {
      return is_dictionary(type) ? as_dictionary(type).value_type() : type;
    };
    const auto ordered = [](const TypePtr& type) {
      return is_dictionary(type) && as_dictionary(type).ordered();
    };
    const TypePtr joined = join_types(values(a), values(b));
    return joined ? arrow::dictionary(arrow::int32(), joined, ordered(a) && ordered(b)) : nullptr;
  }
  const auto is_number = [](const TypePtr& type) {
    return arrow::is_integer(type->id()) || arrow::is_floating(type->id());
  };
  return is_number(a) && is_number(b) ? widen_numbers(a, b) : nullptr;
}

struct Column {
  std::string name;
  TypePtr type;
  std::string from;  // the source that brought the type, for messages
  // What the first source says of the column, such as that it may hold missing values.
  std::shared_ptr<const arrow::KeyValueMetadata> metadata;
};

class SchemaUnion {
 public:
  void add(const arrow::Field& field, const std::string& source) {
    const TypePtr type = stored_type(field.type());
    if (arrow::is_nested(type->id()))
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("obs column '{}' of {} is nested: {}; drop it or flatten it",
                              field.name(), source, type->ToString()));
    const auto [place, is_new] = places_.emplace(field.name(), columns_.size());
    if (is_new) {
      columns_.push_back({field.name(), type, source, field.metadata()});
      return;
    }
    Column& column = columns_[place->second];
    const TypePtr joined = join_types(column.type, type);
    if (!joined)
      throw_invalid("obs column '{}' is {} in {} and {} in {}: rename it or drop it in one of them",
                    column.name, column.type->ToString(), column.from, type->ToString(), source);
    column.type = joined;
  }

  std::shared_ptr<arrow::Schema> finish(std::shared_ptr<const arrow::KeyValueMetadata> metadata) {
    arrow::FieldVector fields;
    for (const auto& column : columns_) {
      // A column without any value in any source is kept as missing text.
      const TypePtr type = column.type->id() == arrow::Type::NA ? arrow::utf8() : column.type;
      fields.push_back(
          arrow::field(column.name, type, column.name != kIndexColumn, column.metadata));
    }
    return arrow::schema(std::move(fields), std::move(metadata));
  }

 private:
  std::vector<Column> columns_;
  std::unordered_map<std::string, std::size_t> places_;
};

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

std::shared_ptr<arrow::Array> cast_array(const std::shared_ptr<arrow::Array>& array,
                                         const TypePtr& type, const std::string& column) {
  if (array->type()->Equals(*type)) return array;
  const auto cast = arrow::compute::Cast(*array, type);
  if (!cast.ok())
    throw Error(ErrorKind::kPrecision,
                fmt::format("obs column '{}' cannot be stored as {}: {}", column, type->ToString(),
                            cast.status().ToString()));
  return *cast;
}

// Codes as int32 and categories as the target's; a plain column becomes its distinct values in
// order of appearance.
std::shared_ptr<arrow::Array> cast_to_dictionary(const std::shared_ptr<arrow::Array>& array,
                                                 const TypePtr& type, const std::string& column) {
  const auto& target = as_dictionary(type);
  std::shared_ptr<arrow::Array> encoded = array;
  if (!is_dictionary(array->type())) {
    const auto plain = cast_array(array, target.value_type(), column);
    encoded =
        arrow_value(arrow::compute::DictionaryEncode(plain), "", ErrorKind::kInternal).make_array();
  }
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*encoded);
  const auto codes = cast_array(dictionary.indices(), arrow::int32(), column);
  const auto categories = cast_array(dictionary.dictionary(), target.value_type(), column);
  return arrow_value(arrow::DictionaryArray::FromArrays(type, codes, categories), "",
                     ErrorKind::kCorruptData);
}

std::shared_ptr<arrow::ChunkedArray> cast_column(const arrow::ChunkedArray& column,
                                                 const TypePtr& type, const std::string& name) {
  arrow::ArrayVector chunks;
  for (const auto& chunk : column.chunks())
    chunks.push_back(is_dictionary(type) ? cast_to_dictionary(chunk, type, name)
                                         : cast_array(chunk, type, name));
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

std::shared_ptr<arrow::Schema> unify_obs_schemas(
    std::span<const std::shared_ptr<arrow::Schema>> schemas,
    std::span<const std::string> source_names) {
  SchemaUnion columns;
  columns.add(*arrow::field(kIndexColumn, arrow::utf8()), "every source");
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    check_source_columns(*schemas[i], source_names[i]);
    for (const auto& field : schemas[i]->fields())
      if (!is_source_column(field->name())) columns.add(*field, source_names[i]);
  }
  columns.add(*arrow::field(kSourceFileColumn, source_file_type()), "every source");
  columns.add(*arrow::field(kSourceRowColumn, arrow::int64()), "every source");
  return columns.finish(schemas.empty() ? nullptr : schemas.front()->metadata());
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
