#include "cellfeed/collection/obs_join.h"

#include <arrow/api.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {
namespace {

using matrix::Categories;
using matrix::FixedColumn;
using matrix::ObsDescription;
using matrix::ObsForm;
using matrix::Recoding;

bool is_missing_at(const FixedColumn& column, std::int64_t row) {
  return column.validity != nullptr && ((column.validity[row >> 3] >> (row & 7)) & 1) == 0;
}

std::int64_t stored_code(const FixedColumn& column, std::int64_t row) {
  return dispatch_dtype(column.dtype, [&](auto zero) {
    return static_cast<std::int64_t>(static_cast<const decltype(zero)*>(column.values)[row]);
  });
}

// Positions of the categories that some row has.
std::vector<bool> used_categories(const FixedColumn& column) {
  std::vector<bool> used(static_cast<std::size_t>(column.categories->length()), false);
  for (std::int64_t row = 0; row < column.length; ++row)
    if (const std::int64_t code = stored_code(column, row); code >= 0 && code < std::ssize(used))
      used[static_cast<std::size_t>(code)] = true;
  return used;
}

// What each store's column is. Stores with equal categories share one list of them.
class Descriptions {
 public:
  Descriptions(const std::string& what, std::span<const std::shared_ptr<const FixedColumn>> columns,
               std::span<const std::string> paths)
      : reader_(what), all_(columns.size()), pointers_(columns.size()), used_(columns.size()) {
    const bool any_text = std::any_of(columns.begin(), columns.end(),
                                      [](const auto& column) { return column && column->is_text; });
    for (std::size_t s = 0; s < columns.size(); ++s) {
      if (!columns[s]) continue;
      pointers_[s] = &all_[s];
      describe(*columns[s], s, any_text, paths[s]);
    }
  }

  std::span<const ObsDescription* const> pointers() const { return pointers_; }
  // Beside text only the categories that occur count: code of the store -> place among those.
  const std::vector<bool>& used(std::size_t s) const { return used_[s]; }

 private:
  void describe(const FixedColumn& column, std::size_t s, bool any_text, const std::string& path) {
    ObsDescription& description = all_[s];
    if (!column.is_categorical) {
      description.type = {
          column.dtype == DType::kBool ? matrix::ValueKind::kBool : matrix::ValueKind::kNumber,
          column.dtype};
      return;
    }
    description.form = column.is_text ? ObsForm::kText : ObsForm::kCategorical;
    description.ordered = column.ordered;
    description.categories = reader_.read(column.categories, path);
    description.type = matrix::value_type_of(*column.categories->type()).value();
    if (!any_text || column.is_text) return;
    used_[s] = used_categories(column);
    Categories kept;
    for (std::size_t i = 0; i < used_[s].size(); ++i)
      if (used_[s][i]) kept.push_back((*description.categories)[i]);
    description.categories = std::make_shared<const Categories>(std::move(kept));
  }

  matrix::CategoryReader reader_;
  std::vector<ObsDescription> all_;
  std::vector<const ObsDescription*> pointers_;
  std::vector<std::vector<bool>> used_;
};

// The recoding of the categories that occur, for all of the store's codes.
std::shared_ptr<const Recoding> spread(const std::shared_ptr<const Recoding>& recoding,
                                       const std::vector<bool>& used) {
  auto spread = std::make_shared<Recoding>(used.size(), -1);
  std::int32_t place = 0;
  for (std::size_t code = 0; code < used.size(); ++code) {
    if (!used[code]) continue;
    (*spread)[code] = recoding ? (*recoding)[static_cast<std::size_t>(place)] : place;
    ++place;
  }
  return spread;
}

// The first integer that the joined dtype would change, as an error.
std::optional<Error> find_inexact(const std::string& what, const FixedColumn& column, DType joined,
                                  bool has_missing, const std::string& path) {
  if (column.dtype != DType::kI64 && column.dtype != DType::kU64) return {};
  if (joined == column.dtype) return {};
  const auto most = static_cast<std::uint64_t>(
      joined == DType::kF64 ? matrix::kExactInFloat64 : std::numeric_limits<std::int64_t>::max());
  return dispatch_dtype(column.dtype, [&](auto zero) -> std::optional<Error> {
    using T = decltype(zero);
    const T* values = static_cast<const T*>(column.values);
    for (std::int64_t row = 0; row < column.length; ++row) {
      if (is_missing_at(column, row)) continue;
      auto size = static_cast<std::uint64_t>(values[row]);
      if constexpr (std::is_signed_v<T>)
        if (values[row] < 0) size = 0 - size;
      if (size <= most) continue;
      return Error(
          ErrorKind::kPrecision,
          fmt::format("{} holds {} in row {}, which {} cannot hold exactly, and {}; {}, make it "
                      "text, or leave the column out",
                      what, values[row], row, dtype_name(joined),
                      has_missing ? "where numbers are missing they are float64 with NaN"
                                  : "that is the type which holds the numbers of all files",
                      has_missing ? "fill the missing values" : "give the files one type"),
          path);
    }
    return {};
  });
}

}  // namespace

JoinedColumn::JoinedColumn(std::string name,
                           std::vector<std::shared_ptr<const FixedColumn>> columns,
                           std::span<const std::string> paths, const LabelMap& map)
    : name_(std::move(name)), columns_(std::move(columns)) {
  const std::string what = fmt::format("obs column '{}'", name_);
  const Descriptions descriptions(what, columns_, paths);
  for (const auto& column : columns_) {
    has_checked_sources_ = has_checked_sources_ || (column && column->check_source);
    if (column) matrix::require_intact(*column);
  }
  matrix::UnitedObs united = matrix::unite_obs(what, descriptions.pointers(), paths);
  is_categorical_ = united.form != ObsForm::kPlain;
  if (!is_categorical_) {
    if (map.labels)
      throw_invalid("{} holds {}, which have no categories to fix", what,
                    dtype_name(united.type.dtype));
    join_numbers(paths,
                 united.type.kind == matrix::ValueKind::kBool ? DType::kBool : united.type.dtype);
    return;
  }
  for (std::size_t s = 0; s < columns_.size(); ++s)
    if (!descriptions.used(s).empty())
      united.recodings[s] = spread(united.recodings[s], descriptions.used(s));
  join_labels(std::move(united), map);
}

void JoinedColumn::join_labels(matrix::UnitedObs&& united, const LabelMap& map) {
  dtype_ = DType::kI64;
  recodings_ = std::move(united.recodings);
  for (const auto& column : columns_) n_codes_.push_back(column ? column->categories->length() : 0);
  MappedLabels mapped = map_labels(name_, std::move(united), map);
  categories_ = std::move(mapped.categories);
  ordered_ = mapped.ordered;
  if (!mapped.recoding) return;
  std::map<const Recoding*, std::shared_ptr<const Recoding>> composed;
  for (std::size_t s = 0; s < columns_.size(); ++s) {
    auto& both = composed[recodings_[s].get()];
    if (!both) both = compose(recodings_[s], mapped.recoding);
    if (columns_[s]) recodings_[s] = both;
  }
}

void JoinedColumn::join_numbers(std::span<const std::string> paths, DType united) {
  dtype_ = stored_dtype_ = united;
  bool has_missing = false;
  for (auto& column : columns_) {
    if (column && column->is_categorical) column.reset();  // no label in it: all are missing
    has_missing = has_missing || !column || column->validity != nullptr;
  }
  // Integers and booleans have no missing value of their own.
  if (has_missing && !is_float(dtype_)) dtype_ = DType::kF64;
  for (std::size_t s = 0; s < columns_.size(); ++s)
    if (columns_[s]) {
      if (!inexact_)
        inexact_ = find_inexact(fmt::format("obs column '{}'", name_), *columns_[s], dtype_,
                                has_missing, paths[s]);
      matrix::require_intact(*columns_[s]);
    }
}

void JoinedColumn::require_exact() const {
  if (inexact_) throw Error(*inexact_);
}

std::int64_t JoinedColumn::code_at(const RowPlace& place) const {
  const auto& column = columns_[place.store];
  if (!column) return -1;
  const std::int64_t code = stored_code(*column, place.row);
  if (code < 0) return -1;
  if (code >= n_codes_[place.store]) {
    matrix::require_intact(*column);
    throw Error(ErrorKind::kCorruptData,
                fmt::format("obs column '{}' has a code beyond its {} categories: row {}, code {}",
                            name_, n_codes_[place.store], place.row, code));
  }
  const auto& recoding = recodings_[place.store];
  return recoding ? (*recoding)[static_cast<std::size_t>(code)] : code;
}

void JoinedColumn::require_intact(std::span<const RowPlace> places) const {
  if (!has_checked_sources_) return;
  std::vector<bool> is_checked(columns_.size());
  for (const RowPlace& place : places) {
    const auto store = static_cast<std::size_t>(place.store);
    if (is_checked[store]) continue;
    is_checked[store] = true;
    if (columns_[store]) matrix::require_intact(*columns_[store]);
  }
}

void JoinedColumn::gather(std::span<const RowPlace> places, void* out) const {
  if (is_categorical_) {
    auto* codes = static_cast<std::int64_t*>(out);
    for (std::size_t i = 0; i < places.size(); ++i) codes[i] = code_at(places[i]);
    return require_intact(places);
  }
  dispatch_dtype(dtype_, [&](auto zero) {
    using Out = decltype(zero);
    auto* values = static_cast<Out*>(out);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& column = columns_[places[i].store];
      if (!column || is_missing_at(*column, places[i].row)) {
        values[i] = static_cast<Out>(std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      values[i] = dispatch_dtype(column->dtype, [&](auto stored) {
        return static_cast<Out>(
            static_cast<const decltype(stored)*>(column->values)[places[i].row]);
      });
    }
  });
  require_intact(places);
}

}  // namespace cellfeed::collection
