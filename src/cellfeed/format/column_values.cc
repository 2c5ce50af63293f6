// Datasets and members of compound ones as Arrow arrays.
#include "cellfeed/format/column_values.h"

#include <arrow/api.h>
#include <arrow/util/utf8.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_source.h"
#include "cellfeed/hdf5/dataset_bytes.h"
#include "cellfeed/hdf5/number_order.h"
#include "cellfeed/hdf5/variable_length.h"

namespace cellfeed::format {
namespace {

using hdf5::TypeClass;

struct Column {
  const StoredColumn& stored;
  hdf5::DatasetBytes bytes;

  const std::string& path() const { return stored.dataset.bytes().path(); }
};

void check_column_size(const Column& column, std::int64_t n) {
  const auto width = column.bytes.element_bytes();
  const std::uint64_t most =
      std::max(kAlwaysReadBytes, kMostExpansion * column.stored.dataset.bytes().size());
  if (static_cast<std::uint64_t>(n) > most / width)
    throw_error(ErrorKind::kCorruptData, column.path(),
                "a column has more bytes than a file of this size can hold: '{}': {} rows of {} "
                "bytes",
                column.stored.name, n, width);
}

// Rows that are read at once: whole chunks, within some memory beside the result.
std::int64_t piece_rows(const hdf5::Dataset& dataset) {
  constexpr std::int64_t kUsualRows = 16384;
  constexpr std::uint64_t kMostBytes = std::uint64_t{32} << 20;
  const std::uint64_t most = std::max<std::uint64_t>(kMostBytes / dataset.datatype().size, 1);
  std::uint64_t rows = kUsualRows;
  if (const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&dataset.layout())) {
    const std::uint64_t chunk = chunked->chunk_shape[0];
    rows = std::max(rows / chunk, std::uint64_t{1}) * chunk;
  }
  return static_cast<std::int64_t>(std::min(rows, most));
}

// Calls visit(begin, end) for pieces of [begin, end), which begin where chunks do.
template <typename Visit>
void for_each_piece(const hdf5::Dataset& dataset, std::int64_t begin, std::int64_t end,
                    const Visit& visit) {
  const std::int64_t step = piece_rows(dataset);
  while (begin < end) {
    const std::int64_t stop = std::min(end, (begin / step + 1) * step);
    visit(begin, stop);
    begin = stop;
  }
}

void read_elements(const Column& column, std::int64_t begin, std::int64_t end,
                   std::span<std::byte> out) {
  if (begin == end) return;
  if (column.bytes.shape().empty()) return column.bytes.read({{}, {}}, out);
  column.bytes.read(
      {{static_cast<std::uint64_t>(begin)}, {static_cast<std::uint64_t>(end - begin)}}, out);
}

void read_bytes(const Column& column, std::int64_t begin, std::int64_t end,
                std::span<std::byte> out) {
  const auto element = static_cast<std::size_t>(column.bytes.element_bytes());
  const auto width = static_cast<std::size_t>(column.stored.type.size);
  if (width == element) return read_elements(column, begin, end, out);
  std::vector<std::byte> elements;
  std::byte* to = out.data();
  for_each_piece(column.stored.dataset, begin, end, [&](std::int64_t from, std::int64_t stop) {
    elements.resize(static_cast<std::size_t>(stop - from) * element);
    read_elements(column, from, stop, elements);
    for (std::size_t at = column.stored.offset; at < elements.size(); at += element) {
      std::memcpy(to, elements.data() + at, width);
      to += width;
    }
  });
}

std::vector<std::byte> read_bytes(const Column& column, std::int64_t begin, std::int64_t end) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin) *
                               static_cast<std::size_t>(column.stored.type.size));
  read_bytes(column, begin, end, bytes);
  return bytes;
}

template <typename ArrowType>
std::shared_ptr<arrow::Array> read_numbers(const Column& column, std::int64_t begin,
                                           std::int64_t end) {
  using T = typename ArrowType::c_type;
  auto buffer = arrow::AllocateBuffer((end - begin) * static_cast<std::int64_t>(sizeof(T)));
  check_arrow(buffer.status());
  const std::span out(reinterpret_cast<std::byte*>((*buffer)->mutable_data()),
                      static_cast<std::size_t>((*buffer)->size()));
  read_bytes(column, begin, end, out);
  hdf5::to_native_order(column.stored.type, out);
  return std::make_shared<typename arrow::TypeTraits<ArrowType>::ArrayType>(
      end - begin, std::shared_ptr<arrow::Buffer>(std::move(*buffer)));
}

std::shared_ptr<arrow::Array> read_halves(const Column& column, std::int64_t begin,
                                          std::int64_t end) {
  std::vector<std::byte> halves = read_bytes(column, begin, end);
  hdf5::to_native_order(column.stored.type, halves);
  std::vector<float> values(static_cast<std::size_t>(end - begin));
  hdf5::widen_float16(halves, values);
  arrow::FloatBuilder builder;
  check_arrow(builder.AppendValues(values));
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

std::shared_ptr<arrow::Array> read_integers(const Column& column, std::int64_t begin,
                                            std::int64_t end) {
  const bool is_signed = column.stored.type.is_signed;
  switch (column.stored.type.size) {
    case 1:
      return is_signed ? read_numbers<arrow::Int8Type>(column, begin, end)
                       : read_numbers<arrow::UInt8Type>(column, begin, end);
    case 2:
      return is_signed ? read_numbers<arrow::Int16Type>(column, begin, end)
                       : read_numbers<arrow::UInt16Type>(column, begin, end);
    case 4:
      return is_signed ? read_numbers<arrow::Int32Type>(column, begin, end)
                       : read_numbers<arrow::UInt32Type>(column, begin, end);
    default:
      return is_signed ? read_numbers<arrow::Int64Type>(column, begin, end)
                       : read_numbers<arrow::UInt64Type>(column, begin, end);
  }
}

// The bytes that mean FALSE, TRUE and, as R writes it, NA.
struct Logicals {
  std::byte no{}, yes{};
  std::optional<std::byte> missing{};
};

// The codes of an enumeration of one byte with FALSE, TRUE and NA; empty for any other type.
std::optional<Logicals> logicals_of(const hdf5::Datatype& type) {
  if (type.type_class != TypeClass::kEnumerated || type.size != 1) return std::nullopt;
  std::map<std::string_view, std::byte> values;
  for (std::size_t i = 0; i < type.enum_names.size(); ++i)
    values[type.enum_names[i]] = type.enum_values[i];
  if (!values.contains("FALSE") || !values.contains("TRUE")) return std::nullopt;
  Logicals found{.no = values["FALSE"], .yes = values["TRUE"]};
  if (values.contains("NA")) found.missing = values["NA"];
  const bool has_others = values.size() != (found.missing ? 3U : 2U);
  return has_others ? std::nullopt : std::optional(found);
}

std::shared_ptr<arrow::Array> read_booleans(const Column& column, std::int64_t begin,
                                            std::int64_t end) {
  const auto logicals = logicals_of(column.stored.type);
  arrow::BooleanBuilder builder;
  check_arrow(builder.Reserve(end - begin));
  for (const std::byte byte : read_bytes(column, begin, end)) {
    if (byte == logicals->missing)
      builder.UnsafeAppendNull();
    else if (byte == logicals->no || byte == logicals->yes)
      builder.UnsafeAppend(byte == logicals->yes);
    else
      throw_error(ErrorKind::kCorruptData, column.path(),
                  "a value is neither true nor false: '{}', row {}: {}", column.stored.name,
                  begin + builder.length(), static_cast<int>(byte));
  }
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

std::shared_ptr<arrow::Array> read_strings(const Column& column, std::int64_t begin,
                                           std::int64_t end) {
  arrow::StringBuilder builder;
  for_each_piece(column.stored.dataset, begin, end, [&](std::int64_t from, std::int64_t stop) {
    hdf5::Texts texts;
    hdf5::append_texts(column.stored.dataset.bytes(), column.stored.type,
                       read_bytes(column, from, stop), texts);
    for (std::int64_t i = 0; i < texts.size(); ++i) {
      if (!is_utf8(texts[i]))
        throw_error(ErrorKind::kCorruptData, column.path(),
                    "damaged texts, which are not UTF-8: '{}', row {}", column.stored.name,
                    from + i);
      check_arrow(builder.Append(texts[i]));
    }
  });
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

// Null where the type has no Arrow counterpart.
std::shared_ptr<arrow::Array> read_typed(const Column& column, std::int64_t begin,
                                         std::int64_t end) {
  const hdf5::Datatype& type = column.stored.type;
  if (hdf5::holds_texts(type)) return read_strings(column, begin, end);
  if (logicals_of(type)) return read_booleans(column, begin, end);
  if (!type.is_standard) return nullptr;
  if (type.type_class == TypeClass::kFixedPoint) return read_integers(column, begin, end);
  if (type.type_class != TypeClass::kFloatingPoint) return nullptr;
  switch (type.size) {
    case 2:
      return read_halves(column, begin, end);
    case 4:
      return read_numbers<arrow::FloatType>(column, begin, end);
    default:
      return read_numbers<arrow::DoubleType>(column, begin, end);
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  [[maybe_unused]] static const bool is_ready = (arrow::util::InitializeUTF8(), true);
  return arrow::util::ValidateUTF8(text);
}

void check_arrow(const arrow::Status& status) {
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString());
}

std::int64_t StoredColumn::length() const {
  // Above 2^63 it is no row count of anything, and turns negative.
  return dataset.shape().empty() ? 0 : static_cast<std::int64_t>(dataset.shape()[0]);
}

StoredColumn column_of(const hdf5::Dataset& dataset) {
  return {.name = dataset.path(), .dataset = dataset, .type = dataset.datatype()};
}

StoredColumn column_of(const hdf5::Dataset& table, std::size_t member) {
  const hdf5::Datatype::Member& found = table.datatype().members[member];
  return {.name = table.path() + "/" + found.name,
          .dataset = table,
          .type = *found.type,
          .offset = found.offset};
}

namespace {

std::shared_ptr<arrow::Array> read_checked(const StoredColumn& stored, std::int64_t begin,
                                           std::int64_t end) {
  const Column column{stored, hdf5::DatasetBytes(stored.dataset, hdf5::Unwritten::kDamage)};
  check_column_size(column, end - begin);
  auto array = read_typed(column, begin, end);
  if (!array)
    throw_error(ErrorKind::kUnsupported, column.path(),
                "a column of this HDF5 type is not readable; drop it and write the file again: "
                "'{}' is of type {}",
                stored.name, stored.type.description());
  return array;
}

}  // namespace

std::shared_ptr<arrow::Array> read_values(const StoredColumn& column, std::int64_t begin,
                                          std::int64_t end) {
  const std::string& path = column.dataset.bytes().path();
  const auto& shape = column.dataset.shape();
  if (shape.size() != 1)
    throw_error(ErrorKind::kUnsupported, path,
                "a column must have one dimension: '{}' has {}; drop it and write the file again",
                column.name, shape.size());
  if (begin < 0 || begin > end || static_cast<std::uint64_t>(end) > shape[0])
    throw_error(ErrorKind::kCorruptData, path,
                "a column is too short: '{}' has {} rows, expected {}", column.name, shape[0], end);
  return read_checked(column, begin, end);
}

std::shared_ptr<arrow::Array> read_all_values(const StoredColumn& column) {
  if (column.dataset.space().kind == hdf5::Dataspace::Kind::kScalar)
    return read_checked(column, 0, 1);
  return read_values(column, 0, column.length());
}

}  // namespace cellfeed::format
