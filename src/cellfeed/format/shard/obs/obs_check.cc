#include "cellfeed/format/shard/obs/obs_check.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/key_value_metadata.h>

#include <cstdint>

#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/obs/fixed_obs_builder.h"

namespace cellfeed::format::shard {
namespace {

void check_categories(const arrow::Array& categories, const std::string& column,
                      const std::string& path) {
  if (categories.null_count() > 0)
    throw_error(ErrorKind::kCorruptData, path, "obs column '{}' has a category that is missing",
                column);
  const auto distinct =
      arrow_value(arrow::compute::Unique(categories.Slice(0)), path, ErrorKind::kCorruptData);
  if (distinct->length() != categories.length())
    throw_error(ErrorKind::kCorruptData, path,
                "obs column '{}' has a category twice: {} of its {} are distinct", column,
                distinct->length(), categories.length());
}

template <typename T>
void check_codes(const arrow::Array& codes, std::int64_t n_categories, const std::string& column,
                 const std::string& path) {
  const T* values = codes.data()->GetValues<T>(1);
  for (std::int64_t row = 0; row < codes.length(); ++row) {
    const auto code = static_cast<std::int64_t>(values[row]);
    if (code < -1 || code >= n_categories || (code == -1) != codes.IsNull(row))
      throw_error(ErrorKind::kCorruptData, path,
                  "obs column '{}' has the code {} in row {}, which is {}: of {} categories",
                  column, code, row,
                  codes.IsNull(row) ? "marked as missing" : "not marked as missing", n_categories);
  }
}

void check_bools(const arrow::Array& bytes, const std::string& column, const std::string& path) {
  const auto* values = bytes.data()->GetValues<std::uint8_t>(1);
  for (std::int64_t row = 0; row < bytes.length(); ++row)
    if (values[row] > 1)
      throw_error(ErrorKind::kCorruptData, path,
                  "obs column '{}' has the byte {} for a boolean in row {}", column, values[row],
                  row);
}

void check_categorical(const arrow::DictionaryArray& array, const std::string& column,
                       const std::string& path) {
  check_categories(*array.dictionary(), column, path);
  const arrow::Array& codes = *array.indices();
  const std::int64_t n_categories = array.dictionary()->length();
  switch (codes.type_id()) {
    case arrow::Type::INT8:
      return check_codes<std::int8_t>(codes, n_categories, column, path);
    case arrow::Type::INT16:
      return check_codes<std::int16_t>(codes, n_categories, column, path);
    case arrow::Type::INT32:
      return check_codes<std::int32_t>(codes, n_categories, column, path);
    default:
      throw_error(ErrorKind::kCorruptData, path,
                  "obs column '{}' has codes of an unexpected type: {}", column,
                  codes.type()->ToString());
  }
}

}  // namespace

bool is_stored_bool(const arrow::Field& field) {
  return field.metadata() && field.metadata()->Get(kDtypeKey).ValueOr("") == "bool";
}

void check_fixed_obs(const arrow::RecordBatch& batch, const std::string& path) {
  check_arrow(batch.ValidateFull(), path, ErrorKind::kCorruptData);
  for (int i = 0; i < batch.num_columns(); ++i) {
    const arrow::Field& field = *batch.schema()->field(i);
    const arrow::Array& array = *batch.column(i);
    if (array.type_id() == arrow::Type::DICTIONARY)
      check_categorical(static_cast<const arrow::DictionaryArray&>(array), field.name(), path);
    else if (is_stored_bool(field) && array.type_id() == arrow::Type::UINT8)
      check_bools(array, field.name(), path);
  }
}

}  // namespace cellfeed::format::shard
