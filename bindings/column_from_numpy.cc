// numpy's arrays, and texts, as Arrow's.
#include <arrow/api.h>
#include <arrow/util/bit_util.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "table_column.h"

namespace nb = nanobind;

namespace cellfeed::bindings {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;
using BufferPtr = std::shared_ptr<arrow::Buffer>;
using TypePtr = std::shared_ptr<arrow::DataType>;

// StringArray has offsets of 32 bits; longer texts need LargeStringArray.
constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max() - 1;

void check_column(const arrow::Status& status, const std::string& column) {
  if (!status.ok())
    throw Error(status.IsOutOfMemory() ? ErrorKind::kIo : ErrorKind::kInvalidArgument,
                fmt::format("column '{}': {}", column, status.ToString()));
}

template <typename T>
T column_value(arrow::Result<T> result, const std::string& column) {
  check_column(result.status(), column);
  return *std::move(result);
}

void require_marks(const Marks& is_missing, std::size_t n, const std::string& column) {
  if (is_missing && is_missing->size() != n)
    throw_invalid("column '{}' has {} values and {} marks of missing ones", column, n,
                  is_missing->size());
}

// A bit for each of n, as Arrow has them.
template <typename IsSet>
BufferPtr packed_bits(std::int64_t n, const IsSet& is_set, const std::string& column) {
  BufferPtr bits = column_value(arrow::AllocateEmptyBitmap(n), column);
  for (std::int64_t i = 0; i < n; ++i)
    if (is_set(i)) arrow::bit_util::SetBit(bits->mutable_data(), i);
  return bits;
}

template <typename IsMissing>
ArrayPtr make_array(const TypePtr& type, std::int64_t n, BufferPtr values,
                    const IsMissing& is_missing, const std::string& column) {
  std::int64_t n_missing = 0;
  for (std::int64_t i = 0; i < n; ++i) n_missing += is_missing(i) ? 1 : 0;
  BufferPtr validity;
  if (n_missing > 0)
    validity = packed_bits(n, [&](std::int64_t i) { return !is_missing(i); }, column);
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, n, {std::move(validity), std::move(values)}, n_missing));
}

BufferPtr copied_bytes(const void* data, std::size_t n_bytes, const std::string& column) {
  BufferPtr copy = column_value(arrow::AllocateBuffer(static_cast<std::int64_t>(n_bytes)), column);
  if (n_bytes > 0) std::memcpy(copy->mutable_data(), data, n_bytes);
  return copy;
}

TypePtr arrow_type(nb::dlpack::dtype type, const std::string& column) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  if (code == Code::Bool) return arrow::boolean();
  // Types of 8, 16, 32 and 64 bits.
  const std::map<Code, std::vector<TypePtr>> known{
      {Code::Int, {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64()}},
      {Code::UInt, {arrow::uint8(), arrow::uint16(), arrow::uint32(), arrow::uint64()}},
      {Code::Float, {nullptr, arrow::float16(), arrow::float32(), arrow::float64()}}};
  const auto found = known.find(code);
  const auto size = static_cast<std::size_t>(std::countr_zero(type.bits) - 3);
  if (found != known.end() && size < 4 && found->second[size]) return found->second[size];
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("column '{}' holds neither booleans nor numbers of 8 to 64 bits", column));
}

bool is_nan(const arrow::DataType& type, const void* values, std::int64_t i) {
  if (type.id() == arrow::Type::FLOAT) return std::isnan(static_cast<const float*>(values)[i]);
  if (type.id() == arrow::Type::DOUBLE) return std::isnan(static_cast<const double*>(values)[i]);
  return type.id() == arrow::Type::HALF_FLOAT &&
         (static_cast<const std::uint16_t*>(values)[i] & 0x7FFF) > 0x7C00;
}

template <typename Code>
ArrayPtr indices_of(const AnyArray& given, const TypePtr& type, const std::string& column) {
  const auto* codes = static_cast<const Code*>(given.data());
  BufferPtr kept = copied_bytes(codes, given.nbytes(), column);
  // What lies under missing ones is a code too.
  auto* own = reinterpret_cast<Code*>(kept->mutable_data());
  for (std::size_t i = 0; i < given.size(); ++i) own[i] = std::max(own[i], Code{0});
  return make_array(
      type, static_cast<std::int64_t>(given.size()), kept,
      [&](std::int64_t i) { return codes[i] < 0; }, column);
}

// Lifetime: until the str is gone.
std::string_view text_of(nb::handle value, const std::string& column) {
  if (!PyUnicode_Check(value.ptr()))
    throw Error(ErrorKind::kUnsupported,
                fmt::format("column '{}' holds values of mixed types: text and {}", column,
                            nb::type_name(value.type()).c_str()));
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text != nullptr) return {text, static_cast<std::size_t>(size)};
  PyErr_Clear();
  throw Error(ErrorKind::kUnsupported,
              fmt::format("column '{}' holds text that UTF-8 cannot hold", column));
}

template <typename Builder>
ArrayPtr built(const std::vector<std::optional<std::string_view>>& texts,
               const std::string& column) {
  Builder builder;
  for (const auto& text : texts)
    check_column(text ? builder.Append(*text) : builder.AppendNull(), column);
  return column_value(builder.Finish(), column);
}

}  // namespace

TableColumn column_of_numbers(std::string name, const AnyArray& values, const Marks& is_missing) {
  const auto n = static_cast<std::int64_t>(values.size());
  require_marks(is_missing, values.size(), name);
  const TypePtr type = arrow_type(values.dtype(), name);
  const auto* flags = static_cast<const std::uint8_t*>(values.data());
  BufferPtr kept = type->id() == arrow::Type::BOOL
                       ? packed_bits(
                             n, [&](std::int64_t i) { return flags[i] != 0; }, name)
                       : copied_bytes(values.data(), values.nbytes(), name);
  ArrayPtr array = make_array(
      type, n, std::move(kept),
      [&](std::int64_t i) {
        return (is_missing && is_missing->data()[i]) || is_nan(*type, values.data(), i);
      },
      name);
  return {std::move(name), std::move(array)};
}

TableColumn column_of_times(std::string name, const Int64Array& counts, const std::string& unit,
                            bool is_duration, const std::string& zone) {
  const auto n = static_cast<std::int64_t>(counts.size());
  const auto is_missing = [&](std::int64_t i) {
    return counts.data()[i] == std::numeric_limits<std::int64_t>::min();
  };
  if (unit == "D" && !is_duration) {
    arrow::Date32Builder builder;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto day = static_cast<std::int32_t>(counts.data()[i]);
      if (!is_missing(i) && day != counts.data()[i])
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("column '{}' holds a day too far away: row {}", name, i));
      check_column(is_missing(i) ? builder.AppendNull() : builder.Append(day), name);
    }
    ArrayPtr days = column_value(builder.Finish(), name);
    return {std::move(name), std::move(days)};
  }
  const std::map<std::string, arrow::TimeUnit::type> scales{{"s", arrow::TimeUnit::SECOND},
                                                            {"ms", arrow::TimeUnit::MILLI},
                                                            {"us", arrow::TimeUnit::MICRO},
                                                            {"ns", arrow::TimeUnit::NANO}};
  const auto scale = scales.find(unit);
  if (scale == scales.end())
    throw Error(ErrorKind::kUnsupported,
                fmt::format("column '{}' holds times in a unit that Arrow lacks: {}", name, unit));
  const TypePtr type =
      is_duration ? arrow::duration(scale->second) : arrow::timestamp(scale->second, zone);
  ArrayPtr array =
      make_array(type, n, copied_bytes(counts.data(), counts.nbytes(), name), is_missing, name);
  return {std::move(name), std::move(array)};
}

TableColumn column_of_texts(std::string name, const nb::list& texts, const Marks& is_missing) {
  require_marks(is_missing, texts.size(), name);
  std::vector<std::optional<std::string_view>> views;
  std::size_t n_bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto& view = views.emplace_back();
    if (is_missing && is_missing->data()[i]) continue;
    view = text_of(texts[i], name);
    n_bytes += view->size();
  }
  ArrayPtr array = n_bytes > kMostBytes ? built<arrow::LargeStringBuilder>(views, name)
                                        : built<arrow::StringBuilder>(views, name);
  return {std::move(name), std::move(array)};
}

TableColumn column_of_codes(std::string name, const AnyArray& codes, const TableColumn& categories,
                            bool ordered) {
  const TypePtr type = arrow_type(codes.dtype(), name);
  ArrayPtr indices;
  switch (type->id()) {
    case arrow::Type::INT8:
      indices = indices_of<std::int8_t>(codes, type, name);
      break;
    case arrow::Type::INT16:
      indices = indices_of<std::int16_t>(codes, type, name);
      break;
    case arrow::Type::INT32:
      indices = indices_of<std::int32_t>(codes, type, name);
      break;
    case arrow::Type::INT64:
      indices = indices_of<std::int64_t>(codes, type, name);
      break;
    default:
      throw_invalid("codes of column '{}' must be integers with a sign, not {}", name,
                    type->ToString());
  }
  ArrayPtr array = column_value(
      arrow::DictionaryArray::FromArrays(arrow::dictionary(type, categories.array->type(), ordered),
                                         indices, categories.array),
      name);
  return {std::move(name), std::move(array)};
}

TableColumn column_of_nulls(std::string name, std::int64_t n) {
  return {std::move(name), std::make_shared<arrow::NullArray>(n)};
}

}  // namespace cellfeed::bindings
