// Columns of an AnnData dataframe to Arrow.
#include "cellfeed/format/anndata/column_reader.h"

#include <arrow/api.h>

#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::anndata {
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
    case arrow::Type::UINT64:
      return checked_codes<arrow::UInt64Type, arrow::Int64Type>(codes, n, row, path, name);
    default:
      throw_error(ErrorKind::kCorruptData, path, "categorical codes must be integers: '{}'", name);
  }
}

bool is_ordered(const StoredNode& node) {
  const auto ordered = node.integers_attribute("ordered");
  return ordered && ordered->size() == 1 && ordered->front() != 0;
}

bool is_categorical(const StoredNode& node) {
  return node.kind() == NodeKind::kGroup &&
         node.text_attribute("encoding-type").value_or("") == "categorical";
}

}  // namespace

ColumnReader::ColumnReader(const StoredTree& file, std::string name)
    : file_(file), name_(std::move(name)) {
  const auto node = file_.find(name_);
  if (!node)
    throw_error(ErrorKind::kCorruptData, file_.path(), "a listed column is not there: '{}'", name_);
  switch (node->kind()) {
    case NodeKind::kArray:
    case NodeKind::kTable:
      open_array(*node);
      return;
    case NodeKind::kGroup:
      open_group(*node);
      return;
    case NodeKind::kOther:
      throw_error(ErrorKind::kUnsupported, file_.path(),
                  "a column of this kind is not readable: '{}'", name_);
  }
}

ColumnReader::ColumnReader(const StoredTree& file, std::shared_ptr<const ColumnSource> column,
                           const StoredNode* categories)
    : file_(file), name_(column->name()), length_(column->length()), values_(std::move(column)) {
  if (categories == nullptr) return;
  kind_ = Kind::kCategorical;
  categories_ = categories->values()->read_all();
}

void ColumnReader::open_array(const StoredNode& array) {
  values_ = array.values();
  length_ = values_->length();
  const auto categories = array.categories();
  if (!categories) return;
  kind_ = Kind::kCategorical;
  categories_ = categories->values()->read_all();
  ordered_ = is_ordered(*categories);
}

void ColumnReader::open_group(const StoredNode& group) {
  const std::string encoding = group.text_attribute("encoding-type").value_or("");
  if (encoding == "categorical") {
    kind_ = Kind::kCategorical;
    values_ = member("codes");
    // Asked before going down: a group may hold itself.
    const auto inner = file_.find(name_ + "/categories");
    if (inner && is_categorical(*inner))
      throw_error(ErrorKind::kCorruptData, file_.path(), "categories of categories: '{}'", name_);
    const ColumnReader categories(file_, name_ + "/categories");
    categories_ = categories.read(0, categories.length());
    ordered_ = is_ordered(group);
  } else if (encoding == "nullable-integer" || encoding == "nullable-boolean" ||
             encoding == "nullable-string-array") {
    kind_ = Kind::kNullable;
    values_ = member("values");
    mask_ = member("mask");
    nullable_mark_ = group.text_attribute("na-value") == kMissingIsNan ? kMissingIsNan : "true";
  } else {
    throw_error(
        ErrorKind::kUnsupported, file_.path(),
        "a column of this encoding is not readable; drop it and write the file again: '{}' is '{}'",
        name_, encoding);
  }
  length_ = values_->length();
}

std::shared_ptr<const ColumnSource> ColumnReader::member(const std::string& name) const {
  const auto node = file_.find(name_ + "/" + name);
  if (!node || (node->kind() != NodeKind::kArray && node->kind() != NodeKind::kTable))
    throw_error(ErrorKind::kCorruptData, file_.path(), "no such dataset: '{}/{}'", name_, name);
  return node->values();
}

std::shared_ptr<arrow::Array> ColumnReader::read(std::int64_t begin, std::int64_t end) const {
  switch (kind_) {
    case Kind::kCategorical:
      return read_categorical(begin, end);
    case Kind::kNullable:
      return read_nullable(begin, end);
    default:
      return values_->read(begin, end);
  }
}

std::shared_ptr<arrow::Array> ColumnReader::read_categorical(std::int64_t begin,
                                                             std::int64_t end) const {
  const auto codes = values_->read(begin, end);
  const auto indices = make_indices(*codes, categories_->length(), begin, file_.path(), name_);
  return std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(indices->type(), categories_->type(), ordered_), indices, categories_);
}

std::shared_ptr<arrow::Array> ColumnReader::read_nullable(std::int64_t begin,
                                                          std::int64_t end) const {
  const auto values = values_->read(begin, end);
  const auto mask = mask_->read(begin, end);
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

}  // namespace cellfeed::format::anndata
