#include "cellfeed/matrix/categories.h"

#include <arrow/api.h>

#include <cmath>
#include <unordered_set>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::matrix {
namespace {

void check_built(const arrow::Status& status) {
  if (!status.ok()) throw Error(ErrorKind::kInternal, "categories: " + status.ToString());
}

template <typename T>
Category number_category(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value == 0 ? 0.0 : static_cast<double>(value);  // -0.0 is 0.0
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return value;
  else
    return static_cast<std::int64_t>(value);
}

Category category_at(const arrow::Array& array, const ValueType& type, std::int64_t i) {
  switch (array.type_id()) {
    case arrow::Type::STRING:
      return static_cast<const arrow::StringArray&>(array).GetString(i);
    case arrow::Type::LARGE_STRING:
      return static_cast<const arrow::LargeStringArray&>(array).GetString(i);
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(i);
    default:
      return dispatch_dtype(type.dtype, [&](auto zero) -> Category {
        using T = decltype(zero);
        if constexpr (std::is_same_v<T, bool>)
          throw Error(ErrorKind::kInternal, "booleans are read above");
        else
          return number_category(array.data()->GetValues<T>(1)[i]);
      });
  }
}

template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> build(const Categories& categories) {
  Builder builder;
  check_built(builder.Reserve(std::ssize(categories)));
  for (const Category& category : categories)
    if constexpr (std::is_same_v<Value, std::string>)
      check_built(builder.Append(std::get<std::string>(category)));
    else
      check_built(builder.Append(std::visit(
          [](const auto& value) -> Value {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
              throw Error(ErrorKind::kInternal, "a category is text beside numbers");
            else
              return static_cast<Value>(value);
          },
          category)));
  std::shared_ptr<arrow::Array> array;
  check_built(builder.Finish(&array));
  return array;
}

}  // namespace

std::optional<ValueType> value_type_of(const arrow::DataType& type) {
  if (type.id() == arrow::Type::NA) return ValueType{ValueKind::kNothing, DType::kI64};
  if (type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING)
    return ValueType{ValueKind::kText, DType::kI64};
  const auto dtype = dtype_of_arrow(type);
  if (!dtype) return std::nullopt;
  return ValueType{*dtype == DType::kBool ? ValueKind::kBool : ValueKind::kNumber, *dtype};
}

std::shared_ptr<arrow::DataType> arrow_type_of(const ValueType& type) {
  if (type.kind == ValueKind::kBool) return arrow::boolean();
  if (type.kind != ValueKind::kNumber) return arrow::utf8();
  return dispatch_dtype(type.dtype, [](auto zero) -> std::shared_ptr<arrow::DataType> {
    return arrow::CTypeTraits<decltype(zero)>::type_singleton();
  });
}

std::string value_type_name(const ValueType& type) {
  switch (type.kind) {
    case ValueKind::kNothing:
      return "nothing";
    case ValueKind::kText:
      return "text";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kNumber:
      return std::string(dtype_name(type.dtype));
  }
  throw Error(ErrorKind::kInternal, "unknown kind of values");
}

std::unordered_map<Category, std::int32_t> codes_of(const Categories& categories) {
  std::unordered_map<Category, std::int32_t> codes;
  codes.reserve(categories.size());
  for (std::size_t i = 0; i < categories.size(); ++i)
    codes.emplace(categories[i], static_cast<std::int32_t>(i));
  return codes;
}

Categories read_categories(const arrow::Array& array, const std::string& what,
                           const std::string& path) {
  const auto type = value_type_of(*array.type());
  if (!type)
    throw_error(ErrorKind::kUnsupported, path,
                "{} has categories of a type that cannot be read: {}; make them text", what,
                array.type()->ToString());
  if (array.null_count() > 0)
    throw_error(ErrorKind::kCorruptData, path, "{} has a category without a value", what);
  Categories categories;
  categories.reserve(static_cast<std::size_t>(array.length()));
  std::unordered_set<Category> seen;
  for (std::int64_t i = 0; i < array.length(); ++i) {
    categories.push_back(category_at(array, *type, i));
    const auto* number = std::get_if<double>(&categories.back());
    if (number != nullptr && std::isnan(*number))
      throw_error(ErrorKind::kCorruptData, path, "{} has NaN as a category", what);
    if (!seen.insert(categories.back()).second)
      throw_error(ErrorKind::kCorruptData, path, "{} has one category twice: '{}'", what,
                  category_text(categories.back()));
  }
  return categories;
}

std::shared_ptr<const Categories> CategoryReader::read(const std::shared_ptr<arrow::Array>& array,
                                                       const std::string& path) {
  for (const auto& [known, categories] : known_)
    if (known == array || known->Equals(*array)) return categories;
  auto categories = std::make_shared<const Categories>(read_categories(*array, what_, path));
  known_.emplace_back(array, categories);
  return categories;
}

std::shared_ptr<arrow::Array> make_category_array(const Categories& categories,
                                                  const ValueType& type) {
  if (type.kind == ValueKind::kBool) return build<arrow::BooleanBuilder, bool>(categories);
  if (type.kind != ValueKind::kNumber) return build<arrow::StringBuilder, std::string>(categories);
  return dispatch_dtype(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return build<typename arrow::CTypeTraits<T>::BuilderType, T>(categories);
  });
}

std::string category_text(const Category& category) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>)
          return value;
        else if constexpr (std::is_same_v<T, bool>)
          return value ? "True" : "False";
        else
          return fmt::format("{}", value);
      },
      category);
}

}  // namespace cellfeed::matrix
