#include "cellfeed/format/shard/obs/fixed_obs_builder.h"

#include <arrow/api.h>

#include <algorithm>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::format::shard {
namespace {

// Bytes per value in values_: what Arrow has, except that a boolean takes one byte.
DType builder_dtype(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return DType::kI8;
  if (type.id() == arrow::Type::BOOL) return DType::kU8;
  if (const auto dtype = matrix::dtype_of_arrow(type)) return *dtype;
  throw Error(ErrorKind::kInternal, "not a fixed-width obs column: " + type.ToString());
}

DType code_dtype(std::int64_t n_categories) {
  if (n_categories <= std::numeric_limits<std::int8_t>::max()) return DType::kI8;
  if (n_categories <= std::numeric_limits<std::int16_t>::max()) return DType::kI16;
  return DType::kI32;
}

std::shared_ptr<arrow::DataType> arrow_type(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return arrow::int8();
    case DType::kI16:
      return arrow::int16();
    case DType::kI32:
      return arrow::int32();
    default:
      throw Error(ErrorKind::kInternal, "not a type of codes");
  }
}

}  // namespace

bool is_fixed_width(const arrow::Field& field) {
  const auto id = field.type()->id();
  if (id == arrow::Type::HALF_FLOAT) return false;
  return id == arrow::Type::DICTIONARY || id == arrow::Type::BOOL || arrow::is_integer(id) ||
         arrow::is_floating(id);
}

FixedObsBuilder::FixedObsBuilder(std::shared_ptr<arrow::Field> field)
    : field_(std::move(field)), dtype_(builder_dtype(*field_->type())) {
  if (field_->type()->id() != arrow::Type::DICTIONARY) return;
  const auto& type = static_cast<const arrow::DictionaryType&>(*field_->type());
  categories_ = arrow_value(arrow::DictionaryUnifier::Make(type.value_type()), field_->name(),
                            ErrorKind::kUnsupported);
}

FixedObsBuilder::~FixedObsBuilder() = default;
FixedObsBuilder::FixedObsBuilder(FixedObsBuilder&&) noexcept = default;

template <typename T>
void FixedObsBuilder::append_values(const T* values, std::int64_t n, const arrow::Array& chunk,
                                    T missing) {
  const std::size_t begin = values_.size();
  values_.resize(begin + static_cast<std::size_t>(n) * sizeof(T));
  auto* out = reinterpret_cast<T*>(values_.data() + begin);
  for (std::int64_t i = 0; i < n; ++i) out[i] = chunk.IsValid(i) ? values[i] : missing;
}

void FixedObsBuilder::append_validity(const arrow::Array& chunk) {
  const std::int64_t n = chunk.length();
  validity_.resize(static_cast<std::size_t>(length_ + n + 7) / 8, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = length_ + i;
    if (chunk.IsValid(i))
      validity_[row / 8] |= static_cast<std::uint8_t>(1u << (row % 8));
    else
      ++n_missing_;
  }
  length_ += n;
}

void FixedObsBuilder::widen(DType wider) {
  std::vector<std::uint8_t> widened(static_cast<std::size_t>(length_) * dtype_bytes(wider));
  dispatch_dtype(dtype_, [&](auto narrow_zero) {
    dispatch_dtype(wider, [&](auto wide_zero) {
      const auto* in = reinterpret_cast<const decltype(narrow_zero)*>(values_.data());
      auto* out = reinterpret_cast<decltype(wide_zero)*>(widened.data());
      for (std::int64_t i = 0; i < length_; ++i) out[i] = static_cast<decltype(wide_zero)>(in[i]);
    });
  });
  values_ = std::move(widened);
  dtype_ = wider;
}

void FixedObsBuilder::append_codes(const arrow::Array& chunk) {
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(chunk);
  std::shared_ptr<arrow::Buffer> transpose;
  check_arrow(categories_->Unify(*dictionary.dictionary(), &transpose), field_->name(),
              ErrorKind::kUnsupported);
  const auto* unified = reinterpret_cast<const std::int32_t*>(transpose->data());
  const std::int64_t n_categories = dictionary.dictionary()->length();
  std::vector<std::int32_t> codes(static_cast<std::size_t>(chunk.length()), -1);
  std::int32_t largest = -1;
  for (std::int64_t i = 0; i < n_categories; ++i) largest = std::max(largest, unified[i]);
  for (std::int64_t i = 0; i < chunk.length(); ++i) {
    if (chunk.IsNull(i)) continue;
    const std::int64_t code = dictionary.GetValueIndex(i);
    if (code < 0 || code >= n_categories)
      throw Error(ErrorKind::kCorruptData,
                  fmt::format("obs column '{}' has a code without a category: {} of {}",
                              field_->name(), code, n_categories));
    codes[i] = unified[code];
  }
  if (const DType needed = code_dtype(largest + 1); dtype_bytes(needed) > dtype_bytes(dtype_))
    widen(needed);
  dispatch_dtype(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const std::size_t begin = values_.size();
    values_.resize(begin + codes.size() * sizeof(T));
    std::transform(codes.begin(), codes.end(), reinterpret_cast<T*>(values_.data() + begin),
                   [](std::int32_t code) { return static_cast<T>(code); });
  });
}

void FixedObsBuilder::append(const arrow::Array& chunk) {
  if (categories_) {
    append_codes(chunk);
  } else if (chunk.type_id() == arrow::Type::BOOL) {
    const auto& bools = static_cast<const arrow::BooleanArray&>(chunk);
    for (std::int64_t i = 0; i < chunk.length(); ++i)
      values_.push_back(bools.IsValid(i) && bools.Value(i) ? 1 : 0);
  } else {
    dispatch_dtype(dtype_, [&](auto zero) {
      using T = decltype(zero);
      append_values(chunk.data()->GetValues<T>(1), chunk.length(), chunk, T{});
    });
  }
  append_validity(chunk);
}

std::shared_ptr<arrow::Buffer> FixedObsBuilder::validity_buffer() const {
  return n_missing_ == 0 ? nullptr : arrow::Buffer::FromVector(validity_);
}

FixedObsBuilder::Finished FixedObsBuilder::finish() {
  auto type = field_->type();
  auto metadata = field_->metadata();
  const bool is_bool = type->id() == arrow::Type::BOOL;
  const auto codes_type = categories_ ? arrow_type(dtype_) : (is_bool ? arrow::uint8() : type);
  auto data = arrow::ArrayData::Make(
      codes_type, length_, {validity_buffer(), arrow::Buffer::FromVector(std::move(values_))},
      n_missing_);
  if (is_bool) metadata = arrow::key_value_metadata({kDtypeKey}, {"bool"});
  if (!categories_)
    return {arrow::field(field_->name(), codes_type, true, metadata), arrow::MakeArray(data)};
  std::shared_ptr<arrow::DataType> unified_type;
  std::shared_ptr<arrow::Array> categories;
  check_arrow(categories_->GetResult(&unified_type, &categories), field_->name(),
              ErrorKind::kUnsupported);
  const auto& given = static_cast<const arrow::DictionaryType&>(*type);
  type = arrow::dictionary(codes_type, given.value_type(), given.ordered());
  return {arrow::field(field_->name(), type, true, metadata),
          std::make_shared<arrow::DictionaryArray>(type, arrow::MakeArray(data), categories)};
}

}  // namespace cellfeed::format::shard
