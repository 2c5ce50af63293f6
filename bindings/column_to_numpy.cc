// Arrow arrays as numpy's.
#include <arrow/api.h>
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/matrix/obs.h"
#include "table_column.h"

namespace nb = nanobind;

namespace cellfeed::bindings {
namespace {

const char* unit_text(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return "s";
    case arrow::TimeUnit::MILLI:
      return "ms";
    case arrow::TimeUnit::MICRO:
      return "us";
    case arrow::TimeUnit::NANO:
      return "ns";
  }
  return "";
}

// numpy's name of a type whose values lie in memory as Arrow's do; "" for any other.
std::string numpy_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::HALF_FLOAT:
      return "float16";
    case arrow::Type::DATE32:
      return "int32";
    case arrow::Type::DATE64:
      return "datetime64[ms]";
    case arrow::Type::TIMESTAMP:
      return fmt::format("datetime64[{}]",
                         unit_text(static_cast<const arrow::TimestampType&>(type).unit()));
    case arrow::Type::DURATION:
      return fmt::format("timedelta64[{}]",
                         unit_text(static_cast<const arrow::DurationType&>(type).unit()));
    case arrow::Type::BOOL:
      return "";
    default:
      const auto number = matrix::dtype_of_arrow(type);
      return number ? std::string(dtype_name(*number)) : "";
  }
}

// get(i): a new reference.
template <typename Get>
nb::object object_array(std::int64_t n, const Get& get) {
  const auto list = nb::steal<nb::list>(PyList_New(n));
  if (!list.is_valid()) throw nb::python_error();
  for (std::int64_t i = 0; i < n; ++i) PyList_SetItem(list.ptr(), i, get(i));
  return nb::module_::import_("numpy").attr("array")(list, "object");
}

template <typename Texts>
nb::object text_array(const TableColumn& column) {
  const auto& texts = static_cast<const Texts&>(*column.array);
  return object_array(texts.length(), [&](std::int64_t i) -> PyObject* {
    if (texts.IsNull(i)) return Py_NewRef(Py_None);
    const std::string_view text = texts.GetView(i);
    PyObject* made =
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
    if (made != nullptr) return made;
    PyErr_Clear();
    throw Error(ErrorKind::kCorruptData,
                fmt::format("column '{}' holds text that is no UTF-8: row {}", column.name, i));
  });
}

nb::object bool_array(const TableColumn& column) {
  const auto& bools = static_cast<const arrow::BooleanArray&>(*column.array);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(bools.length()));
  for (std::int64_t i = 0; i < bools.length(); ++i) bytes[i] = bools.Value(i);
  return vector_as_array(std::move(bytes)).attr("view")("bool");
}

nb::object fixed_array(const TableColumn& column, const std::string& type) {
  static constexpr std::uint8_t kNothing = 0;
  const arrow::Array& array = *column.array;
  const std::int64_t width = array.type()->byte_width();
  const std::uint8_t* bytes =
      array.length() == 0 ? &kNothing : array.data()->buffers[1]->data() + array.offset() * width;
  const nb::object raw =
      nb::ndarray<nb::numpy, const std::uint8_t>(
          bytes, {static_cast<std::size_t>(array.length() * width)}, keep_alive(column.array))
          .cast();
  return raw.attr("view")(type);
}

template <typename Code>
NumpyArray codes_as(const arrow::DictionaryArray& array) {
  std::vector<Code> codes(static_cast<std::size_t>(array.length()));
  for (std::int64_t i = 0; i < array.length(); ++i)
    codes[i] = array.IsNull(i) ? Code{-1} : static_cast<Code>(array.GetValueIndex(i));
  return vector_as_array(std::move(codes));
}

const arrow::DictionaryArray& coded(const TableColumn& column) {
  if (!is_categorical(column))
    throw_invalid("column '{}' is not categorical, so it has no codes: {}", column.name,
                  column.array->type()->ToString());
  return static_cast<const arrow::DictionaryArray&>(*column.array);
}

nb::object found_values(const TableColumn& column) {
  const arrow::DataType& type = *column.array->type();
  switch (type.id()) {
    case arrow::Type::NA:
      return object_array(column.array->length(), [](auto) { return Py_NewRef(Py_None); });
    case arrow::Type::BOOL:
      return bool_array(column);
    case arrow::Type::STRING:
      return text_array<arrow::StringArray>(column);
    case arrow::Type::LARGE_STRING:
      return text_array<arrow::LargeStringArray>(column);
    case arrow::Type::STRING_VIEW:
      return text_array<arrow::StringViewArray>(column);
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
      return fixed_array(column, numpy_type(type)).attr("astype")("datetime64[D]");
    default:
      const std::string fixed = numpy_type(type);
      if (!fixed.empty()) return fixed_array(column, fixed);
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("column '{}' has a type that numpy has no values of: {}", column.name,
                              type.ToString()));
  }
}

}  // namespace

NumpyArray values_of(const TableColumn& column) {
  return nb::steal<NumpyArray>(found_values(column).release());
}

std::optional<NumpyArray> missing_of(const TableColumn& column) {
  const arrow::Array& array = *column.array;
  if (array.null_count() == 0) return std::nullopt;
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(array.length()));
  for (std::int64_t i = 0; i < array.length(); ++i) marks[i] = array.IsNull(i);
  return nb::steal<NumpyArray>(vector_as_array(std::move(marks)).attr("view")("bool").release());
}

NumpyArray codes_of(const TableColumn& column) {
  const arrow::DictionaryArray& array = coded(column);
  switch (array.indices()->type_id()) {
    case arrow::Type::INT8:
      return codes_as<std::int8_t>(array);
    case arrow::Type::INT16:
      return codes_as<std::int16_t>(array);
    case arrow::Type::INT32:
      return codes_as<std::int32_t>(array);
    default:
      return codes_as<std::int64_t>(array);
  }
}

bool is_categorical(const TableColumn& column) {
  return column.array->type_id() == arrow::Type::DICTIONARY;
}

TableColumn categories_of(const TableColumn& column) {
  return {column.name, coded(column).dictionary()};
}

bool is_ordered(const TableColumn& column) {
  return static_cast<const arrow::DictionaryType&>(*coded(column).type()).ordered();
}

}  // namespace cellfeed::bindings
