// Columns of an AnnData dataframe to Arrow.
#include "cellfeed/format/h5ad/column_reader.h"

#include <arrow/api.h>

#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/column_values.h"

namespace cellfeed::format::h5ad {
namespace {

// Codes as Arrow indices: -1 becomes null; anything else outside the categories is an error.
template <typename StoredType, typename IndexType>
std::shared_ptr<arrow::Array> checked_codes(const arrow::Array& stored, std::int64_t n_categories,
                                            std::int64_t first_row, const std::string& path,
                                            const std::string& name) {
  using T = typename StoredType::c_type;
  const auto& codes = static_cast<const arrow::NumericArray<StoredType>&>(stored);
  arrow::NumericBuilder<IndexType> builder;
  check_arrow(builder.Reserve(codes.length()));
  for (std::int64_t i = 0; i < codes.length(); ++i) {
    const T code = codes.Value(i);
    if (std::is_signed_v<T> && code == static_cast<T>(-1)) {
      builder.UnsafeAppendNull();
      continue;
    }
    if (static_cast<std::uint64_t>(code) >= static_cast<std::uint64_t>(n_categories))
      throw_error(
          ErrorKind::kCorruptData, path,
          "a code is not one of the categories: column '{}', row {}: code {}, categories {}", name,
          first_row + i, code, n_categories);
    builder.UnsafeAppend(static_cast<typename IndexType::c_type>(code));
  }
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

std::shared_ptr<arrow::Array> make_indices(const arrow::Array& codes, std::int64_t n,
                                           std::int64_t row, const std::string& path,
                                           const std::string& name) {
  switch (codes.type_id()) {
    case arrow::Type::INT8:
      return checked_codes<arrow::Int8Type, arrow::Int8Type>(codes, n, row, path, name);
    case arrow::Type::INT16:
      return checked_codes<arrow::Int16Type, arrow::Int16Type>(codes, n, row, path, name);
    case arrow::Type::INT32:
      return checked_codes<arrow::Int32Type, arrow::Int32Type>(codes, n, row, path, name);
    case arrow::Type::INT64:
      return checked_codes<arrow::Int64Type, arrow::Int64Type>(codes, n, row, path, name);
    case arrow::Type::UINT8:
      return checked_codes<arrow::UInt8Type, arrow::Int16Type>(codes, n, row, path, name);
    case arrow::Type::UINT16:
      return checked_codes<arrow::UInt16Type, arrow::Int32Type>(codes, n, row, path, name);
    case arrow::Type::UINT32:
      return checked_codes<arrow::UInt32Type, arrow::Int64Type>(codes, n, row, path, name);
    default:
      throw_error(ErrorKind::kCorruptData, path, "categorical codes must be integers: '{}'", name);
  }
}

}  // namespace

ColumnReader::ColumnReader(const H5File& file, std::string name, std::string legacy_categories)
    : file_(file), name_(std::move(name)) {
  const Hdf5Session session;
  switch (object_kind(file_.id(), name_)) {
    case ObjectKind::kDataset: {
      values_name_ = name_;
      length_ = dataset_length(name_);
      const Handle dataset = open_object(file_.id(), file_.path(), name_);
      if (H5Aexists(dataset.get(), "categories") <= 0) return;
      if (legacy_categories.empty() ||
          object_kind(file_.id(), legacy_categories) != ObjectKind::kDataset)
        throw_error(
            ErrorKind::kUnsupported, file_.path(),
            "the categories of this column are kept in a way that is not readable; write the file "
            "again with anndata 0.8 or later: '{}'",
            name_);
      kind_ = Kind::kCategorical;
      categories_ = read_values(file_, legacy_categories, 0, dataset_length(legacy_categories));
      const Handle categories = open_object(file_.id(), file_.path(), legacy_categories);
      const auto ordered = integers_attribute(categories.get(), "ordered");
      ordered_ = ordered && ordered->size() == 1 && ordered->front() != 0;
      return;
    }
    case ObjectKind::kGroup:
      open_group();
      return;
    case ObjectKind::kMissing:
      throw_error(ErrorKind::kCorruptData, file_.path(), "a listed column is not there: '{}'",
                  name_);
    case ObjectKind::kOther:
      throw_error(ErrorKind::kUnsupported, file_.path(),
                  "a column of this kind is not readable: '{}'", name_);
  }
}

void ColumnReader::open_group() {
  const Handle group = open_object(file_.id(), file_.path(), name_);
  const std::string encoding = text_attribute(group.get(), "encoding-type").value_or("");
  if (encoding == "categorical") {
    kind_ = Kind::kCategorical;
    values_name_ = name_ + "/codes";
    // Asked before going down: a group may hold itself.
    const std::string categories_name = name_ + "/categories";
    if (object_kind(file_.id(), categories_name) == ObjectKind::kGroup) {
      const Handle inner = open_object(file_.id(), file_.path(), categories_name);
      if (text_attribute(inner.get(), "encoding-type").value_or("") == "categorical")
        throw_error(ErrorKind::kCorruptData, file_.path(), "categories of categories: '{}'", name_);
    }
    const ColumnReader categories(file_, categories_name, "");
    categories_ = categories.read(0, categories.length());
    const auto ordered = integers_attribute(group.get(), "ordered");
    ordered_ = ordered && ordered->size() == 1 && ordered->front() != 0;
  } else if (encoding == "nullable-integer" || encoding == "nullable-boolean" ||
             encoding == "nullable-string-array") {
    kind_ = Kind::kNullable;
    values_name_ = name_ + "/values";
  } else {
    throw_error(
        ErrorKind::kUnsupported, file_.path(),
        "a column of this encoding is not readable; drop it and write the file again: '{}' is '{}'",
        name_, encoding);
  }
  length_ = dataset_length(values_name_);
}

std::int64_t ColumnReader::dataset_length(const std::string& name) const {
  if (object_kind(file_.id(), name) != ObjectKind::kDataset)
    throw_error(ErrorKind::kCorruptData, file_.path(), "no such dataset: '{}'", name);
  const Handle dataset = open_object(file_.id(), file_.path(), name);
  const auto shape = extents(Handle(H5Dget_space(dataset.get())));
  return shape.empty() ? 0 : shape[0];
}

std::shared_ptr<arrow::Array> ColumnReader::read(std::int64_t begin, std::int64_t end) const {
  const Hdf5Session session;
  switch (kind_) {
    case Kind::kCategorical:
      return read_categorical(begin, end);
    case Kind::kNullable:
      return read_nullable(begin, end);
    default:
      return read_values(file_, values_name_, begin, end);
  }
}

std::shared_ptr<arrow::Array> ColumnReader::read_categorical(std::int64_t begin,
                                                             std::int64_t end) const {
  const auto codes = read_values(file_, values_name_, begin, end);
  const auto indices = make_indices(*codes, categories_->length(), begin, file_.path(), name_);
  return std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(indices->type(), categories_->type(), ordered_), indices, categories_);
}

std::shared_ptr<arrow::Array> ColumnReader::read_nullable(std::int64_t begin,
                                                          std::int64_t end) const {
  const auto values = read_values(file_, values_name_, begin, end);
  const auto mask = read_values(file_, name_ + "/mask", begin, end);
  if (mask->type_id() != arrow::Type::BOOL)
    throw_error(ErrorKind::kCorruptData, file_.path(), "the mask of a column must be boolean: '{}'",
                name_);
  const auto& missing = static_cast<const arrow::BooleanArray&>(*mask);
  auto bitmap = arrow::AllocateEmptyBitmap(end - begin);
  check_arrow(bitmap.status());
  std::int64_t n_missing = 0;
  for (std::int64_t i = 0; i < end - begin; ++i) {
    if (missing.Value(i))
      ++n_missing;
    else
      (*bitmap)->mutable_data()[i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
  }
  auto data = values->data()->Copy();
  data->buffers[0] = std::move(*bitmap);
  data->null_count = n_missing;
  return arrow::MakeArray(data);
}

}  // namespace cellfeed::format::h5ad
