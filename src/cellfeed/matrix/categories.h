// Categories of an obs column as typed values, from Arrow and back. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace cellfeed::matrix {

// Whole numbers are int64, but uint64 where their column is of that type. Floats are never NaN.
using Category = std::variant<std::string, bool, std::int64_t, std::uint64_t, double>;
using Categories = std::vector<Category>;

// What values are, whatever their width.
enum class ValueKind {
  kNothing,  // no value is known: the column goes with any other
  kText,
  kBool,
  kNumber,
};

struct ValueType {
  ValueKind kind = ValueKind::kNothing;
  DType dtype = DType::kI64;  // of a number
  bool operator==(const ValueType&) const = default;
};

// Empty for types that are not text, booleans, numbers or null.
std::optional<ValueType> value_type_of(const arrow::DataType& type);
std::shared_ptr<arrow::DataType> arrow_type_of(const ValueType& type);
std::string value_type_name(const ValueType& type);  // "text", "bool", "int8"

// Each category's place in the list. REQUIRES: none is there twice.
std::unordered_map<Category, std::int32_t> codes_of(const Categories& categories);

// what: names the column in messages. Throws kUnsupported for other types; kCorruptData for a
// category that is missing, NaN or there twice.
Categories read_categories(const arrow::Array& array, const std::string& what,
                           const std::string& path = {});
// Reads lists of categories; equal ones are read once and shared. Not thread-safe.
class CategoryReader {
 public:
  explicit CategoryReader(std::string what) : what_(std::move(what)) {}
  // Throws what read_categories throws.
  std::shared_ptr<const Categories> read(const std::shared_ptr<arrow::Array>& array,
                                         const std::string& path);

 private:
  std::string what_;
  std::vector<std::pair<std::shared_ptr<arrow::Array>, std::shared_ptr<const Categories>>> known_;
};
// REQUIRES: the categories are of that type.
std::shared_ptr<arrow::Array> make_category_array(const Categories& categories,
                                                  const ValueType& type);
// As Python would print it.
std::string category_text(const Category& category);

}  // namespace cellfeed::matrix
