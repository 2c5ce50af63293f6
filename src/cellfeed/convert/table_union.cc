#include "cellfeed/convert/table_union.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "cellfeed/convert/arrow_result.h"

namespace cellfeed::convert {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;
using ArrayPtr = std::shared_ptr<arrow::Array>;

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

const arrow::DictionaryType* as_dictionary(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY ? static_cast<const arrow::DictionaryType*>(&type)
                                              : nullptr;
}

TypePtr integer_type(int bits, bool is_signed) {
  switch (bits) {
    case 8:
      return is_signed ? arrow::int8() : arrow::uint8();
    case 16:
      return is_signed ? arrow::int16() : arrow::uint16();
    case 32:
      return is_signed ? arrow::int32() : arrow::uint32();
    default:
      return is_signed ? arrow::int64() : arrow::uint64();
  }
}

// numpy's promotion, except that uint64 with a signed type stays an (exactly checked) int64. Null:
// not numbers.
TypePtr promote_numbers(const arrow::DataType& a, const arrow::DataType& b) {
  const bool numbers = (arrow::is_integer(a.id()) || arrow::is_floating(a.id())) &&
                       (arrow::is_integer(b.id()) || arrow::is_floating(b.id()));
  if (!numbers) return nullptr;
  const int bits_a = a.byte_width() * 8, bits_b = b.byte_width() * 8;
  if (arrow::is_floating(a.id()) || arrow::is_floating(b.id())) {
    const auto fits_float = [](const arrow::DataType& type, int bits) {
      return arrow::is_floating(type.id()) ? bits <= 32 : bits <= 16;
    };
    return fits_float(a, bits_a) && fits_float(b, bits_b) ? arrow::float32() : arrow::float64();
  }
  const bool signed_a = arrow::is_signed_integer(a.id()),
             signed_b = arrow::is_signed_integer(b.id());
  if (signed_a == signed_b) return integer_type(std::max(bits_a, bits_b), signed_a);
  const int unsigned_bits = signed_a ? bits_b : bits_a, signed_bits = signed_a ? bits_a : bits_b;
  return integer_type(std::min(64, std::max(signed_bits, unsigned_bits * 2)), true);
}

// A type of plain values (not dictionaries) that holds both, or null.
TypePtr unite_values(const TypePtr& a, const TypePtr& b) {
  if (a->Equals(*b)) return a;
  if (a->id() == arrow::Type::NA) return b;
  if (b->id() == arrow::Type::NA) return a;
  if (is_text(*a) && is_text(*b)) return arrow::large_utf8();
  return promote_numbers(*a, *b);
}

ArrayPtr one_chunk(const arrow::ChunkedArray& column, std::string_view name) {
  if (column.num_chunks() == 1) return column.chunk(0);
  const std::string what = fmt::format("join the pieces of column '{}'", name);
  if (column.num_chunks() == 0) return check_arrow(arrow::MakeEmptyArray(column.type()), what);
  if (column.type()->id() != arrow::Type::DICTIONARY)
    return check_arrow(arrow::Concatenate(column.chunks()), what);
  auto unified =
      check_arrow(arrow::DictionaryUnifier::UnifyChunkedArray(
                      std::make_shared<arrow::ChunkedArray>(column.chunks(), column.type())),
                  what);
  return check_arrow(arrow::Concatenate(unified->chunks()), what);
}

ArrayPtr cast_array(const ArrayPtr& array, const TypePtr& type, std::string_view name) {
  if (array->type()->Equals(*type)) return array;
  return check_arrow(arrow::compute::Cast(*array, type),
                     fmt::format("convert column '{}' from {} to {}", name,
                                 array->type()->ToString(), type->ToString()));
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
    ArrayPtr categories;  // of that source, as united value type, when the union is categorical
    std::vector<std::int32_t> codes;  // code of that source -> united code
  };
  std::string name;
  bool is_categorical = false;
  bool ordered = false;
  TypePtr value_type;  // of values, or of categories
  std::vector<Origin> origins;
  std::string last_path;  // of the last source that has it
  // What the first source says of the column, such as that it may hold missing values.
  std::shared_ptr<const arrow::KeyValueMetadata> metadata;
  ArrayPtr categories;  // united
  void unite_categories();
  TypePtr type() const {
    if (!is_categorical) return value_type;
    return arrow::dictionary(code_type(categories->length()), value_type, ordered);
  }
  ArrayPtr recode(const arrow::DictionaryArray& array, const Origin& origin) const;
};

void TableUnion::Column::unite_categories() {
  ArrayPtr first;
  bool same = true;
  for (Origin& origin : origins) {
    if (!origin.type) continue;
    origin.categories = cast_array(origin.categories, value_type, name);
    if (!first)
      first = origin.categories;
    else if (!first->Equals(*origin.categories))
      same = false;
  }
  if (same) {
    categories = first;
    for (Origin& origin : origins) origin.codes.clear();
    return;
  }
  ordered = false;
  std::unordered_map<std::string, std::int32_t> codes;
  std::vector<ArrayPtr> pieces;
  std::int32_t next = 0;
  for (Origin& origin : origins) {
    if (!origin.type) continue;
    origin.codes.assign(static_cast<std::size_t>(origin.categories->length()), 0);
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < origin.categories->length(); ++i) {
      const std::string text =
          check_arrow(origin.categories->GetScalar(i), "read a category")->ToString();
      const auto [at, is_new] = codes.emplace(text, next);
      origin.codes[i] = at->second;
      if (is_new) {
        ++next;
        continue;
      }
      if (i > begin) pieces.push_back(origin.categories->Slice(begin, i - begin));
      begin = i + 1;
    }
    if (origin.categories->length() > begin) pieces.push_back(origin.categories->Slice(begin));
  }
  categories = check_arrow(arrow::Concatenate(pieces), "join categories");
}

ArrayPtr TableUnion::Column::recode(const arrow::DictionaryArray& array,
                                    const Origin& origin) const {
  const TypePtr codes_type = code_type(categories->length());
  ArrayPtr codes = array.indices();
  if (!origin.codes.empty() || !array.dictionary()->Equals(*categories)) {
    // A piece may carry its own subset or order of categories (Parquet does); map those by value.
    std::vector<std::int32_t> map = origin.codes;
    if (origin.categories && !array.dictionary()->Equals(*origin.categories)) {
      std::unordered_map<std::string, std::int32_t> by_text;
      for (std::int64_t i = 0; i < categories->length(); ++i)
        by_text.emplace(check_arrow(categories->GetScalar(i), "read a category")->ToString(),
                        static_cast<std::int32_t>(i));
      const ArrayPtr own = cast_array(array.dictionary(), value_type, name);
      map.clear();
      for (std::int64_t i = 0; i < own->length(); ++i) {
        const auto at = by_text.find(check_arrow(own->GetScalar(i), "read a category")->ToString());
        if (at == by_text.end())
          throw Error(
              ErrorKind::kInternal,
              fmt::format("a piece of a column has a category the source does not list: '{}'",
                          name));
        map.push_back(at->second);
      }
    }
    if (!map.empty()) {
      arrow::Int32Builder builder;
      check_arrow(builder.Reserve(array.length()), "recode categories");
      for (std::int64_t i = 0; i < array.length(); ++i) {
        if (array.IsNull(i))
          builder.UnsafeAppendNull();
        else
          builder.UnsafeAppend(map[static_cast<std::size_t>(array.GetValueIndex(i))]);
      }
      codes = check_arrow(builder.Finish(), "recode categories");
    }
  }
  return check_arrow(
      arrow::DictionaryArray::FromArrays(type(), cast_array(codes, codes_type, name), categories),
      "recode categories");
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
    const std::string& name = sample.field(i)->name();
    const TypePtr type = sample.field(i)->type();
    const auto* dictionary = as_dictionary(*type);
    Column* column = find(name);
    if (column == nullptr) {
      columns_.push_back(std::make_unique<Column>());
      column = columns_.back().get();
      column->name = name;
      column->metadata = sample.field(i)->metadata();
      column->is_categorical = dictionary != nullptr;
      column->ordered = dictionary != nullptr && dictionary->ordered();
      column->value_type = dictionary ? dictionary->value_type() : type;
    } else {
      const TypePtr value = dictionary ? dictionary->value_type() : type;
      const bool both = column->is_categorical && dictionary != nullptr;
      const TypePtr united = unite_values(column->value_type, value);
      // Categories of a text column are not known before its last row is read, so the mixture is
      // text.
      const bool mixed = column->is_categorical != (dictionary != nullptr);
      const bool all_null =
          type->id() == arrow::Type::NA ||
          (column->value_type->id() == arrow::Type::NA && !column->is_categorical);
      if (!united || (mixed && !all_null && !is_text(*united)))
        throw_invalid(
            "{} column '{}' has types that cannot be united: {} in '{}', {} in '{}'; convert or "
            "drop the column in one of the files",
            what_, name, column->origins.back().type->ToString(), column->last_path,
            type->ToString(), path);
      if (mixed) column->is_categorical = all_null && (column->is_categorical || dictionary);
      column->ordered = both && column->ordered && dictionary->ordered();
      column->value_type = united;
    }
    column->origins.resize(source + 1);
    column->origins[source].type = type;
    column->last_path = path;
    if (dictionary) {
      const ArrayPtr chunk = one_chunk(*sample.column(i), name);
      column->origins[source].categories =
          static_cast<const arrow::DictionaryArray&>(*chunk).dictionary();
    }
  }
}

void TableUnion::finish() {
  for (auto& column : columns_) {
    column->origins.resize(paths_.size());
    if (!column->is_categorical) continue;
    for (auto& origin : column->origins)
      if (origin.type && !origin.categories)
        origin.categories =
            check_arrow(arrow::MakeEmptyArray(column->value_type), "join categories");
    column->unite_categories();
  }
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
    const TypePtr type = column->type();
    const auto chunked = rows.GetColumnByName(column->name);
    if (!chunked) {
      arrays.push_back(check_arrow(arrow::MakeArrayOfNull(type, rows.num_rows()), "fill a column"));
      if (column->is_categorical)
        arrays.back() = check_arrow(
            arrow::DictionaryArray::FromArrays(
                type, static_cast<const arrow::DictionaryArray&>(*arrays.back()).indices(),
                column->categories),
            "fill a column");
      continue;
    }
    ArrayPtr array = one_chunk(*chunked, column->name);
    if (!column->is_categorical) {
      if (as_dictionary(*array->type()))
        array =
            check_arrow(arrow::compute::Cast(*array, as_dictionary(*array->type())->value_type()),
                        fmt::format("spell out the categories of '{}'", column->name));
      arrays.push_back(cast_array(array, type, column->name));
    } else if (array->type_id() == arrow::Type::DICTIONARY) {
      arrays.push_back(column->recode(static_cast<const arrow::DictionaryArray&>(*array),
                                      column->origins[source]));
    } else {  // all null in this source
      const auto nulls = check_arrow(
          arrow::MakeArrayOfNull(code_type(column->categories->length()), rows.num_rows()),
          "fill a column");
      arrays.push_back(check_arrow(
          arrow::DictionaryArray::FromArrays(type, nulls, column->categories), "fill a column"));
    }
  }
  return arrow::Table::Make(schema(), std::move(arrays), rows.num_rows());
}

std::shared_ptr<arrow::Table> drop_columns(const arrow::Table& table,
                                           const std::vector<std::string>& names) {
  std::vector<int> kept;
  for (int i = 0; i < table.num_columns(); ++i)
    if (std::find(names.begin(), names.end(), table.field(i)->name()) == names.end())
      kept.push_back(i);
  return check_arrow(table.SelectColumns(kept), "select columns");
}

std::shared_ptr<arrow::Table> take_rows(const arrow::Table& table,
                                        const std::vector<std::int64_t>& rows) {
  const auto buffer = arrow::Buffer::Wrap(rows);
  const arrow::Int64Array indices(static_cast<std::int64_t>(rows.size()), buffer);
  arrow::ChunkedArrayVector columns;
  for (int i = 0; i < table.num_columns(); ++i) {
    const ArrayPtr array = one_chunk(*table.column(i), table.field(i)->name());
    columns.push_back(std::make_shared<arrow::ChunkedArray>(check_arrow(
        arrow::compute::Take(*array, indices, arrow::compute::TakeOptions::NoBoundsCheck()),
        "take rows")));
  }
  return arrow::Table::Make(table.schema(), std::move(columns), indices.length());
}

}  // namespace cellfeed::convert
