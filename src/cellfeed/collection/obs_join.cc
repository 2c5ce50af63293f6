#include "cellfeed/collection/obs_join.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {
namespace {

// Categories that are all whole numbers sort by value ("2" before "10"), all others as text.
bool number_before(const std::string& a, const std::string& b) {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::from_chars(a.data(), a.data() + a.size(), x);
  std::from_chars(b.data(), b.data() + b.size(), y);
  return x < y;
}

bool is_whole_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size() && std::to_string(value) == text;
}

// The dtype that holds both: bool < integers < floats, as numpy promotes.
DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) || is_float(b)) return DType::kF64;
  if (a == DType::kU64 || b == DType::kU64)
    return a == DType::kBool || b == DType::kBool ? DType::kU64 : DType::kF64;
  return DType::kI64;
}

bool is_missing(const matrix::FixedColumn& column, std::int64_t row) {
  return column.validity != nullptr && ((column.validity[row >> 3] >> (row & 7)) & 1) == 0;
}

}  // namespace

JoinedColumn::JoinedColumn(std::string name,
                           std::vector<std::shared_ptr<const matrix::FixedColumn>> columns,
                           std::span<const std::string> paths)
    : name_(std::move(name)), columns_(std::move(columns)) {
  std::optional<std::size_t> first;
  for (std::size_t s = 0; s < columns_.size(); ++s) {
    if (!columns_[s]) continue;
    if (!first) first = s;
    if (columns_[s]->is_categorical != columns_[*first]->is_categorical)
      throw_error(ErrorKind::kInvalidArgument, paths[s],
                  "obs column '{}' holds {} here but {} in {}; make them the same kind, or leave "
                  "the column out",
                  name_, columns_[s]->is_categorical ? "labels" : "numbers",
                  columns_[*first]->is_categorical ? "labels" : "numbers", paths[*first]);
  }
  is_categorical_ = first && columns_[*first]->is_categorical;
  if (is_categorical_)
    join_categories(paths);
  else
    join_numbers(paths);
}

void JoinedColumn::join_categories(std::span<const std::string>) {
  std::vector<std::vector<std::string>> texts(columns_.size());
  std::map<std::string, std::int64_t> codes;
  for (std::size_t s = 0; s < columns_.size(); ++s) {
    if (!columns_[s]) continue;
    texts[s] = matrix::category_texts(*columns_[s]);
    for (const auto& text : texts[s]) codes.emplace(text, 0);
    ordered_ = columns_[s]->ordered;
  }
  for (const auto& [text, code] : codes) categories_.push_back(text);
  const bool same_everywhere = std::all_of(texts.begin(), texts.end(), [&](const auto& other) {
    return other.empty() || other == texts[0];
  });
  // An ordered categorical keeps its order where all stores agree on it.
  if (ordered_ && same_everywhere)
    categories_ = texts[0];
  else if (std::all_of(categories_.begin(), categories_.end(), is_whole_number))
    std::sort(categories_.begin(), categories_.end(), number_before);
  ordered_ = ordered_ && same_everywhere;
  for (std::size_t i = 0; i < categories_.size(); ++i)
    codes[categories_[i]] = static_cast<std::int64_t>(i);
  recode_.resize(columns_.size());
  for (std::size_t s = 0; s < columns_.size(); ++s)
    for (const auto& text : texts[s]) recode_[s].push_back(codes.at(text));
  dtype_ = DType::kI64;
}

void JoinedColumn::join_numbers(std::span<const std::string>) {
  std::optional<DType> joined;
  bool has_missing = false;
  for (const auto& column : columns_) {
    if (!column) {
      has_missing = true;
      continue;
    }
    has_missing = has_missing || column->validity != nullptr;
    joined = joined ? promote(*joined, column->dtype) : column->dtype;
  }
  dtype_ = joined.value_or(DType::kF64);
  // Integers and booleans have no missing value of their own.
  if (has_missing && !is_float(dtype_)) dtype_ = DType::kF64;
}

void JoinedColumn::gather(std::span<const RowPlace> places, void* out) const {
  if (is_categorical_) {
    auto* codes = static_cast<std::int64_t*>(out);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& column = columns_[places[i].store];
      if (!column) {
        codes[i] = -1;
        continue;
      }
      const auto& recode = recode_[places[i].store];
      const std::int64_t code = dispatch_dtype(column->dtype, [&](auto zero) {
        return static_cast<std::int64_t>(
            static_cast<const decltype(zero)*>(column->values)[places[i].row]);
      });
      if (code >= static_cast<std::int64_t>(recode.size()))
        throw Error(
            ErrorKind::kCorruptData,
            fmt::format("obs column '{}' has a code beyond its {} categories: row {}, code {}",
                        name_, recode.size(), places[i].row, code));
      codes[i] = code < 0 ? -1 : recode[static_cast<std::size_t>(code)];
    }
    return;
  }
  dispatch_dtype(dtype_, [&](auto zero) {
    using Out = decltype(zero);
    auto* values = static_cast<Out*>(out);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& column = columns_[places[i].store];
      if (!column || is_missing(*column, places[i].row)) {
        values[i] = static_cast<Out>(std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      values[i] = dispatch_dtype(column->dtype, [&](auto stored) {
        return static_cast<Out>(
            static_cast<const decltype(stored)*>(column->values)[places[i].row]);
      });
    }
  });
}

}  // namespace cellfeed::collection
