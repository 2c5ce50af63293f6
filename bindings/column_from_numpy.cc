// numpy's arrays, and texts, as Arrow's.
#include <arrow/api.h>
#include <arrow/util/bit_util.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/arrow_result.h"
#include "table_column.h"

namespace nb = nanobind;

namespace cellfeed::bindings {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;
using BufferPtr = std::shared_ptr<arrow::Buffer>;
using TypePtr = std::shared_ptr<arrow::DataType>;

// StringArray has offsets of 32 bits; longer texts need LargeStringArray.
constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max() - 1;

template <typename Result>
auto column_value(Result result, const std::string& column) {
  return matrix::check_arrow(std::move(result), "make column '" + column + "'",
                             ErrorKind::kInvalidArgument);
}

// A bit for each of n, as Arrow has them.
template <typename IsSet>
BufferPtr packed_bits(std::int64_t n, const IsSet& is_set, const std::string& column) {
  BufferPtr bits = column_value(arrow::AllocateEmptyBitmap(n), column);
  for (std::int64_t i = 0; i < n; ++i)
    if (is_set(i)) arrow::bit_util::SetBit(bits->mutable_data(), i);
  return bits;
}

void require_marks(const Marks& is_missing, std::size_t n, const std::string& column) {
  if (is_missing && is_missing->size() != n)
    throw_invalid("column '{}' has {} values and {} marks of missing ones", column, n,
                  is_missing->size());
}

ArrayPtr make_array(const TypePtr& type, std::size_t size, BufferPtr values,
                    const Marks& is_missing, const std::string& column) {
  require_marks(is_missing, size, column);
  const auto n = static_cast<std::int64_t>(size);
  BufferPtr validity;
  if (is_missing && std::count(is_missing->data(), is_missing->data() + n, true) > 0)
    validity = packed_bits(n, [&](std::int64_t i) { return !is_missing->data()[i]; }, column);
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, n, {std::move(validity), std::move(values)}));
}

template <typename Array>
BufferPtr copied(const Array& values, const std::string& column) {
  const auto n_bytes = static_cast<std::int64_t>(values.nbytes());
  BufferPtr copy = column_value(arrow::AllocateBuffer(n_bytes), column);
  if (n_bytes > 0) std::memcpy(copy->mutable_data(), values.data(), values.nbytes());
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
    column_value(text ? builder.Append(*text) : builder.AppendNull(), column);
  return column_value(builder.Finish(), column);
}

}  // namespace

TableColumn column_of_numbers(std::string name, const AnyArray& values, const Marks& is_missing) {
  const TypePtr type = arrow_type(values.dtype(), name);
  const auto* flags = static_cast<const std::uint8_t*>(values.data());
  const auto n = static_cast<std::int64_t>(values.size());
  BufferPtr kept = type->id() == arrow::Type::BOOL
                       ? packed_bits(
                             n, [&](std::int64_t i) { return flags[i] != 0; }, name)
                       : copied(values, name);
  ArrayPtr array = make_array(type, values.size(), std::move(kept), is_missing, name);
  return {std::move(name), std::move(array)};
}

TableColumn column_of_days(std::string name, const Int32Array& days, const Marks& is_missing) {
  ArrayPtr array = make_array(arrow::date32(), days.size(), copied(days, name), is_missing, name);
  return {std::move(name), std::move(array)};
}

TableColumn column_of_times(std::string name, const Int64Array& counts, const Marks& is_missing,
                            const std::string& unit, bool is_duration, const std::string& zone) {
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
  ArrayPtr array = make_array(type, counts.size(), copied(counts, name), is_missing, name);
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

TableColumn column_of_codes(std::string name, const AnyArray& codes, const Marks& is_missing,
                            const TableColumn& categories, bool ordered) {
  const TypePtr type = arrow_type(codes.dtype(), name);
  const ArrayPtr indices = make_array(type, codes.size(), copied(codes, name), is_missing, name);
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
