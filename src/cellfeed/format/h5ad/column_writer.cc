// Columns of an AnnData dataframe, written piece by piece.
#include "cellfeed/format/h5ad/column_writer.h"

#include <arrow/api.h>

#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/column_reader.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::format::h5ad {
namespace {

bool is_written_as_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

std::string_view text_view_at(const arrow::Array& array, std::int64_t i) {
  if (array.type_id() == arrow::Type::STRING)
    return static_cast<const arrow::StringArray&>(array).GetView(i);
  return static_cast<const arrow::LargeStringArray&>(array).GetView(i);
}

// Which rows are missing; makes no dataset until one is, unless told that the column is nullable.
class MissingRows {
 public:
  MissingRows(const WriteTarget& target, std::string name, bool is_nullable)
      : target_(target), name_(std::move(name)) {
    if (is_nullable) mask_ = std::make_unique<GrowingArray>(target_, name_, DType::kBool);
  }

  void append(const arrow::Array& rows) {
    if (!mask_ && rows.null_count() > 0) {
      mask_ = std::make_unique<GrowingArray>(target_, name_, DType::kBool);
      const std::vector<std::int8_t> none(4096, 0);
      for (std::int64_t left = length_; left > 0; left -= std::ssize(none))
        mask_->append(none.data(), std::min<std::int64_t>(left, std::ssize(none)));
    }
    length_ += rows.length();
    if (!mask_) return;
    std::vector<std::int8_t> missing(static_cast<std::size_t>(rows.length()));
    for (std::int64_t i = 0; i < rows.length(); ++i) missing[i] = rows.IsNull(i) ? 1 : 0;
    mask_->append(missing.data(), rows.length());
  }

  // Turns the dataset `column` into a nullable group when a row is missing; else gives it the plain
  // encoding. na_value: what anndata's attribute says missing ones are; "" for none.
  void finish(const std::string& column, const char* plain_encoding, const char* nullable_encoding,
              const std::string& na_value = "") {
    if (mask_) mask_->finish();
    const Hdf5Session session;
    if (!mask_) {
      const Handle dataset = open_written(target_.file, target_.path, column);
      return write_encoding(dataset.get(), target_.path, plain_encoding, "0.2.0");
    }
    const std::string values = column + ".values";
    move_link(target_.file, target_.path, column, values);
    const Handle group = create_group(target_.file, target_.path, column);
    write_encoding(group.get(), target_.path, nullable_encoding, "0.1.0");
    if (!na_value.empty()) write_text_attribute(group.get(), target_.path, "na-value", na_value);
    move_link(target_.file, target_.path, values, column + "/values");
    move_link(target_.file, target_.path, name_, column + "/mask");
    const auto encode = [&](const std::string& name, const char* encoding) {
      const Handle dataset = open_written(target_.file, target_.path, name);
      write_encoding(dataset.get(), target_.path, encoding, "0.2.0");
    };
    encode(column + "/values", plain_encoding);
    encode(column + "/mask", "array");
  }

 private:
  const WriteTarget& target_;
  std::string name_;
  std::int64_t length_ = 0;
  std::unique_ptr<GrowingArray> mask_;
};

class NumberWriter final : public ColumnWriter {
 public:
  NumberWriter(const WriteTarget& target, const std::string& name, DType dtype, bool is_nullable)
      : values_(target, name, dtype), missing_(target, name + ".mask", is_nullable), name_(name) {}

  void append(const arrow::Array& rows) override {
    if (values_.dtype() == DType::kBool) {
      append_booleans(static_cast<const arrow::BooleanArray&>(rows));
    } else {
      dispatch_dtype(values_.dtype(), [&](auto zero) { append_numbers<decltype(zero)>(rows); });
    }
    if (!is_float(values_.dtype())) missing_.append(rows);
  }
  void finish() override {
    values_.finish();
    missing_.finish(name_, "array",
                    values_.dtype() == DType::kBool ? "nullable-boolean" : "nullable-integer");
  }

 private:
  void append_booleans(const arrow::BooleanArray& rows) {
    std::vector<std::int8_t> bytes(static_cast<std::size_t>(rows.length()));
    for (std::int64_t i = 0; i < rows.length(); ++i)
      bytes[i] = rows.IsValid(i) && rows.Value(i) ? 1 : 0;
    values_.append(bytes.data(), rows.length());
  }
  template <typename T>
  void append_numbers(const arrow::Array& rows) {
    const T* stored = rows.data()->GetValues<T>(1);
    if (rows.null_count() == 0) return values_.append(stored, rows.length());
    T missing{};
    if constexpr (std::is_floating_point_v<T>) missing = std::numeric_limits<T>::quiet_NaN();
    std::vector<std::conditional_t<std::is_same_v<T, bool>, std::int8_t, T>> copy(
        stored, stored + rows.length());
    for (std::int64_t i = 0; i < rows.length(); ++i)
      if (rows.IsNull(i)) copy[i] = missing;
    values_.append(copy.data(), rows.length());
  }

  GrowingArray values_;
  MissingRows missing_;
  std::string name_;
};

class StringWriter final : public ColumnWriter {
 public:
  StringWriter(const WriteTarget& target, const std::string& name, const std::string& mark)
      : values_(target, name),
        missing_(target, name + ".mask", !mark.empty()),
        name_(name),
        na_value_(mark == anndata::kMissingIsNan ? mark : "") {}

  void append(const arrow::Array& rows) override {
    for (std::int64_t i = 0; i < rows.length(); ++i)
      values_.append(rows.IsValid(i) ? text_view_at(rows, i) : std::string_view());
    missing_.append(rows);
  }
  void finish() override {
    values_.finish();
    missing_.finish(name_, "string-array", "nullable-string-array", na_value_);
  }

 private:
  GrowingStrings values_;
  MissingRows missing_;
  std::string name_, na_value_;
};

// The bytes that make a category what it is.
std::string category_key(const arrow::Array& categories, std::int64_t i) {
  if (is_written_as_text(*categories.type())) return std::string(text_view_at(categories, i));
  if (categories.type_id() == arrow::Type::BOOL)
    return static_cast<const arrow::BooleanArray&>(categories).Value(i) ? "1" : "0";
  const auto& type = static_cast<const arrow::FixedWidthType&>(*categories.type());
  const auto width = static_cast<std::size_t>(type.bit_width() / 8);
  const std::uint8_t* start = categories.data()->buffers[1]->data() +
                              static_cast<std::size_t>(categories.offset() + i) * width;
  return {reinterpret_cast<const char*>(start), width};
}

class CategoricalWriter final : public ColumnWriter {
 public:
  CategoricalWriter(const WriteTarget& target, const std::string& name,
                    const arrow::DictionaryType& type)
      : target_(target), name_(name), ordered_(type.ordered()), type_(type.value_type()) {
    {
      const Hdf5Session session;
      group_ = create_group(target_.file, target_.path, name_);
    }
    codes_ = std::make_unique<GrowingIntegers>(target_, name_ + "/codes", DType::kI8);
    categories_ = make_column_writer(target_, name_ + "/categories", *type_);
  }

  void append(const arrow::Array& rows) override {
    const auto& column = static_cast<const arrow::DictionaryArray&>(rows);
    if (column.dictionary().get() != last_dictionary_.get()) merge_categories(column.dictionary());
    std::vector<std::int64_t> codes(static_cast<std::size_t>(column.length()), -1);
    for (std::int64_t i = 0; i < column.length(); ++i) {
      if (column.IsNull(i)) continue;
      const std::int64_t index = column.GetValueIndex(i);
      if (index < 0 || index >= std::ssize(merged_))
        throw_error(ErrorKind::kInvalidArgument, target_.path,
                    "a dictionary index is out of range: column '{}', index {}, categories {}",
                    name_, index, merged_.size());
      codes[i] = merged_[index];
    }
    codes_->append(codes);
  }

  void finish() override {
    codes_->finish();
    categories_->finish();
    const Hdf5Session session;
    write_encoding(codes_->dataset(), target_.path, "array", "0.2.0");
    write_encoding(group_.get(), target_.path, "categorical", "0.2.0");
    write_bool_attribute(group_.get(), target_.path, "ordered", ordered_);
  }

 private:
  // Codes of the dictionary's entries in the union; new categories go to the file at once.
  void merge_categories(const std::shared_ptr<arrow::Array>& dictionary) {
    last_dictionary_ = dictionary;
    merged_.assign(static_cast<std::size_t>(dictionary->length()), -1);
    for (std::int64_t i = 0; i < dictionary->length(); ++i) {
      if (dictionary->IsNull(i)) continue;
      const auto [entry, is_new] =
          codes_by_key_.emplace(category_key(*dictionary, i), std::ssize(codes_by_key_));
      if (is_new) categories_->append(*dictionary->Slice(i, 1));
      merged_[i] = entry->second;
    }
  }

  const WriteTarget& target_;
  std::string name_;
  bool ordered_;
  std::shared_ptr<arrow::DataType> type_;
  Handle group_;
  std::unique_ptr<GrowingIntegers> codes_;
  std::unique_ptr<ColumnWriter> categories_;
  std::map<std::string, std::int64_t> codes_by_key_;
  std::shared_ptr<arrow::Array> last_dictionary_;  // held, so that its address is not used again
  std::vector<std::int64_t> merged_;
};

}  // namespace

std::unique_ptr<ColumnWriter> make_column_writer(const WriteTarget& target, const std::string& name,
                                                 const arrow::DataType& type,
                                                 const std::string& nullable_mark) {
  if (const auto dtype = matrix::dtype_of_arrow(type))
    return std::make_unique<NumberWriter>(target, name, *dtype,
                                          !nullable_mark.empty() && !is_float(*dtype));
  if (is_written_as_text(type)) return std::make_unique<StringWriter>(target, name, nullable_mark);
  if (type.id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryType&>(type);
    if (matrix::dtype_of_arrow(*dictionary.value_type()) ||
        is_written_as_text(*dictionary.value_type()))
      return std::make_unique<CategoricalWriter>(target, name, dictionary);
  }
  throw_error(ErrorKind::kUnsupported, target.path,
              "a column of this type cannot be written to .h5ad; drop or convert it: '{}' is {}",
              name, type.ToString());
}

}  // namespace cellfeed::format::h5ad
