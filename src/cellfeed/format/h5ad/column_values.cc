// Plain HDF5 datasets as Arrow arrays, read by hyperslab.
#include "cellfeed/format/h5ad/column_values.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/hdf5_filters.h"
#include "cellfeed/format/h5ad/stored_array.h"

namespace cellfeed::format::h5ad {
namespace {

struct Selection {
  const H5File& file;
  const std::string& name;
  Handle dataset;
  Handle type;
  Handle space;
};

void read_slab(const Selection& from, hid_t memory_type, std::int64_t begin, std::int64_t end,
               void* out) {
  if (begin == end) return;
  const auto start = static_cast<hsize_t>(begin);
  const auto count = static_cast<hsize_t>(end - begin);
  const Handle memory(H5Screate_simple(1, &count, nullptr));
  H5Sselect_hyperslab(from.space.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr);
  check_hdf5(
      H5Dread(from.dataset.get(), memory_type, memory.get(), from.space.get(), H5P_DEFAULT, out),
      ErrorKind::kCorruptData, from.file.path(), "reading '" + from.name + "'");
}

template <typename ArrowType>
std::shared_ptr<arrow::Array> read_numbers(const Selection& from, hid_t memory_type,
                                           std::int64_t begin, std::int64_t end) {
  using T = typename ArrowType::c_type;
  auto buffer = arrow::AllocateBuffer((end - begin) * static_cast<std::int64_t>(sizeof(T)));
  check_arrow(buffer.status());
  read_slab(from, memory_type, begin, end, (*buffer)->mutable_data());
  return std::make_shared<typename arrow::TypeTraits<ArrowType>::ArrayType>(
      end - begin, std::shared_ptr<arrow::Buffer>(std::move(*buffer)));
}

std::shared_ptr<arrow::Array> read_integers(const Selection& from, std::int64_t begin,
                                            std::int64_t end) {
  const bool is_signed = H5Tget_sign(from.type.get()) == H5T_SGN_2;
  switch (H5Tget_size(from.type.get())) {
    case 1:
      return is_signed ? read_numbers<arrow::Int8Type>(from, H5T_NATIVE_INT8, begin, end)
                       : read_numbers<arrow::UInt8Type>(from, H5T_NATIVE_UINT8, begin, end);
    case 2:
      return is_signed ? read_numbers<arrow::Int16Type>(from, H5T_NATIVE_INT16, begin, end)
                       : read_numbers<arrow::UInt16Type>(from, H5T_NATIVE_UINT16, begin, end);
    case 4:
      return is_signed ? read_numbers<arrow::Int32Type>(from, H5T_NATIVE_INT32, begin, end)
                       : read_numbers<arrow::UInt32Type>(from, H5T_NATIVE_UINT32, begin, end);
    case 8:
      return is_signed ? read_numbers<arrow::Int64Type>(from, H5T_NATIVE_INT64, begin, end)
                       : read_numbers<arrow::UInt64Type>(from, H5T_NATIVE_UINT64, begin, end);
    default:
      return nullptr;
  }
}

std::shared_ptr<arrow::Array> read_booleans(const Selection& from, std::int64_t begin,
                                            std::int64_t end) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(end - begin));
  read_slab(from, from.type.get(), begin, end, bytes.data());
  for (std::uint8_t& byte : bytes) byte = byte != 0;
  arrow::BooleanBuilder builder;
  check_arrow(builder.AppendValues(bytes.data(), end - begin));
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

void append_variable(const Selection& from, std::int64_t begin, std::int64_t end,
                     arrow::StringBuilder& builder) {
  std::vector<char*> pointers(static_cast<std::size_t>(end - begin), nullptr);
  const Handle memory(H5Tcopy(from.type.get()));
  read_slab(from, memory.get(), begin, end, static_cast<void*>(pointers.data()));
  arrow::Status status;
  for (const char* text : pointers)
    if (status.ok())
      status = text == nullptr ? builder.Append("")
                               : builder.Append(text, static_cast<std::int32_t>(std::strlen(text)));
  const auto count = static_cast<hsize_t>(pointers.size());
  const Handle space(H5Screate_simple(1, &count, nullptr));
  H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, static_cast<void*>(pointers.data()));
  check_arrow(status);
}

void append_fixed(const Selection& from, std::int64_t begin, std::int64_t end,
                  arrow::StringBuilder& builder) {
  const std::size_t width = H5Tget_size(from.type.get());
  const bool space_padded = H5Tget_strpad(from.type.get()) == H5T_STR_SPACEPAD;
  std::vector<char> bytes(static_cast<std::size_t>(end - begin) * width);
  read_slab(from, from.type.get(), begin, end, bytes.data());
  for (std::int64_t i = 0; i < end - begin; ++i) {
    const char* text = bytes.data() + static_cast<std::size_t>(i) * width;
    std::size_t length = strnlen(text, width);
    while (space_padded && length > 0 && text[length - 1] == ' ') --length;
    check_arrow(builder.Append(text, static_cast<std::int32_t>(length)));
  }
}

std::shared_ptr<arrow::Array> read_strings(const Selection& from, std::int64_t begin,
                                           std::int64_t end) {
  constexpr std::int64_t kPieceRows = 16384;  // bounds the memory beside the result
  const bool is_variable = H5Tis_variable_str(from.type.get()) > 0;
  arrow::StringBuilder builder;
  for (std::int64_t at = begin; at < end; at += kPieceRows) {
    const std::int64_t stop = std::min(end, at + kPieceRows);
    if (is_variable)
      append_variable(from, at, stop, builder);
    else
      append_fixed(from, at, stop, builder);
  }
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

}  // namespace

void check_arrow(const arrow::Status& status) {
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString());
}

std::shared_ptr<arrow::Array> read_values(const H5File& file, const std::string& name,
                                          std::int64_t begin, std::int64_t end) {
  Selection from{file, name, open_object(file.id(), file.path(), name), Handle(), Handle()};
  from.type = Handle(H5Dget_type(from.dataset.get()));
  from.space = Handle(H5Dget_space(from.dataset.get()));
  const auto shape = extents(from.space);
  if (shape.size() != 1)
    throw_error(ErrorKind::kUnsupported, file.path(),
                "a column must have one dimension: '{}' has {}; drop it and write the file again",
                name, shape.size());
  if (begin < 0 || begin > end || end > shape[0])
    throw_error(ErrorKind::kCorruptData, file.path(),
                "a column is too short: '{}' has {} rows, expected {}", name, shape[0], end);
  const Handle properties(H5Dget_create_plist(from.dataset.get()));
  for (const int filter : filters_of(properties.get()))
    if (H5Zfilter_avail(filter) <= 0) throw_unreadable_filter(filter, file.path(), name);
  std::shared_ptr<arrow::Array> array;
  const H5T_class_t kind = H5Tget_class(from.type.get());
  const std::size_t bytes = H5Tget_size(from.type.get());
  if (kind == H5T_STRING)
    array = read_strings(from, begin, end);
  else if (kind == H5T_INTEGER)
    array = read_integers(from, begin, end);
  else if (kind == H5T_FLOAT && bytes <= 4)
    array = read_numbers<arrow::FloatType>(from, H5T_NATIVE_FLOAT, begin, end);
  else if (kind == H5T_FLOAT && bytes == 8)
    array = read_numbers<arrow::DoubleType>(from, H5T_NATIVE_DOUBLE, begin, end);
  else if (kind == H5T_ENUM && stored_dtype(from.type.get(), file.path(), name) == DType::kBool)
    array = read_booleans(from, begin, end);
  if (!array)
    throw_error(
        ErrorKind::kUnsupported, file.path(),
        "a column of this HDF5 type is not readable; drop it and write the file again: '{}'", name);
  return array;
}

}  // namespace cellfeed::format::h5ad
