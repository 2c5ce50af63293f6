#include "cellfeed/matrix/obs_union.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <unordered_map>

#include "cellfeed/base/error.h"

namespace cellfeed::matrix {
namespace {

using Lists = std::vector<std::shared_ptr<const Categories>>;

bool is_signed_integer(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

// A categorical of which no category is known goes with every other, and says nothing of order.
bool says_nothing(const ObsDescription& column) {
  if (column.type.kind == ValueKind::kNothing) return true;
  return column.form == ObsForm::kCategorical && (!column.categories || column.categories->empty());
}

std::string describe(const ObsDescription& column) {
  if (column.form == ObsForm::kPlain) return "numbers (" + value_type_name(column.type) + ")";
  return "labels (" + value_type_name(column.type) + ")";
}

bool fit(const ObsDescription& a, const ObsDescription& b) {
  return (a.form == ObsForm::kPlain) == (b.form == ObsForm::kPlain) && a.type.kind == b.type.kind;
}

void require_fit(const std::string& what, std::span<const ObsDescription* const> columns,
                 std::span<const std::string> paths) {
  std::optional<std::size_t> first;
  for (std::size_t s = 0; s < columns.size(); ++s) {
    if (columns[s] == nullptr || says_nothing(*columns[s])) continue;
    if (!first) first = s;
    if (!fit(*columns[*first], *columns[s]))
      throw_error(ErrorKind::kInvalidArgument, paths[s],
                  "{} holds {} here but {} in {}; make them the same kind, or leave the column out",
                  what, describe(*columns[s]), describe(*columns[*first]), paths[*first]);
  }
}

// The category as a value of the united type.
Category convert(const Category& category, const ValueType& type, const std::string& what) {
  if (type.kind != ValueKind::kNumber) return category;
  const auto refuse = [&]() -> Category {
    throw Error(ErrorKind::kPrecision,
                fmt::format("{} has a category that does not fit {}, the type of all files: {}; "
                            "make the categories text",
                            what, dtype_name(type.dtype), category_text(category)));
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (is_float(type.dtype)) {
    if (const auto* value = std::get_if<std::int64_t>(&category))
      return *value > kExactInFloat64 || *value < -kExactInFloat64
                 ? refuse()
                 : Category(static_cast<double>(*value));
    if (const auto* value = std::get_if<std::uint64_t>(&category))
      return *value > static_cast<std::uint64_t>(kExactInFloat64)
                 ? refuse()
                 : Category(static_cast<double>(*value));
    return category;
  }
  if (type.dtype == DType::kU64) {
    if (const auto* value = std::get_if<std::int64_t>(&category))
      return *value < 0 ? refuse() : Category(static_cast<std::uint64_t>(*value));
  } else if (const auto* value = std::get_if<std::uint64_t>(&category)) {
    return *value > static_cast<std::uint64_t>(kMost) ? refuse()
                                                      : Category(static_cast<std::int64_t>(*value));
  }
  return category;
}

Categories sorted_union(const Lists& lists) {
  Categories all;
  for (const auto& list : lists) all.insert(all.end(), list->begin(), list->end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// An order that keeps that of every list, the smallest free label first; empty where they
// contradict. Kahn's algorithm: https://doi.org/10.1145/368996.369025
std::optional<Categories> merge_orders(const Lists& lists, const Categories& sorted) {
  const auto rank = codes_of(sorted);
  std::vector<std::vector<std::int32_t>> after(sorted.size());
  std::vector<std::int32_t> n_before(sorted.size(), 0);
  for (const auto& list : lists)
    for (std::size_t i = 1; i < list->size(); ++i) {
      const std::int32_t next = rank.at((*list)[i]);
      after[static_cast<std::size_t>(rank.at((*list)[i - 1]))].push_back(next);
      ++n_before[static_cast<std::size_t>(next)];
    }
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> free;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (n_before[i] == 0) free.push(static_cast<std::int32_t>(i));
  Categories merged;
  while (!free.empty()) {
    const auto label = static_cast<std::size_t>(free.top());
    free.pop();
    merged.push_back(sorted[label]);
    for (const std::int32_t next : after[label])
      if (--n_before[static_cast<std::size_t>(next)] == 0) free.push(next);
  }
  if (merged.size() != sorted.size()) return std::nullopt;
  return merged;
}

class CategoryUnion {
 public:
  CategoryUnion(const std::string& what, UnitedObs& united) : what_(what), united_(united) {}

  void unite(std::span<const ObsDescription* const> columns) {
    lists_.resize(columns.size());
    bool all_ordered = true;
    for (std::size_t s = 0; s < columns.size(); ++s) {
      if (columns[s] == nullptr || says_nothing(*columns[s])) continue;
      all_ordered = all_ordered && columns[s]->ordered;
      lists_[s] = converted(columns[s]->categories);
    }
    choose_order(all_ordered);
    recode();
  }

 private:
  // As values of the united type. Files that share one list here share one there.
  std::shared_ptr<const Categories> converted(const std::shared_ptr<const Categories>& list) {
    if (!list) return std::make_shared<const Categories>();
    auto& known = converted_[list.get()];
    if (known) return known;
    auto values = std::make_shared<Categories>(convert_categories(*list, united_.type, what_));
    const auto same = std::find_if(distinct_.begin(), distinct_.end(),
                                   [&](const auto& other) { return *other == *values; });
    if (same == distinct_.end()) {
      distinct_.push_back(values);
      known = std::move(values);
    } else {
      known = *same;
    }
    return known;
  }

  void choose_order(bool all_ordered) {
    const bool is_categorical = united_.form == ObsForm::kCategorical;
    united_.ordered = is_categorical && all_ordered && !distinct_.empty();
    if (distinct_.size() == 1 && is_categorical) {
      united_.categories = *distinct_.front();
      return;
    }
    united_.categories = sorted_union(distinct_);
    if (!united_.ordered) return;
    auto merged = merge_orders(distinct_, united_.categories);
    united_.ordered = merged.has_value();
    if (merged) united_.categories = *std::move(merged);
  }

  void recode() {
    united_.recodings.resize(lists_.size());
    if (distinct_.empty()) return;
    const auto codes = codes_of(united_.categories);
    std::unordered_map<const Categories*, std::shared_ptr<const Recoding>> recodings;
    for (const auto& list : distinct_) {
      auto recoding = std::make_shared<Recoding>();
      bool is_identity = true;
      for (const Category& category : *list) {
        is_identity = is_identity && codes.at(category) == std::ssize(*recoding);
        recoding->push_back(codes.at(category));
      }
      if (!is_identity) recodings.emplace(list.get(), std::move(recoding));
    }
    for (std::size_t s = 0; s < lists_.size(); ++s)
      if (const auto it = recodings.find(lists_[s].get()); it != recodings.end())
        united_.recodings[s] = it->second;
  }

  const std::string& what_;
  UnitedObs& united_;
  Lists lists_;     // of each file
  Lists distinct_;  // those that differ
  std::unordered_map<const Categories*, std::shared_ptr<const Categories>> converted_;
};

}  // namespace

DType unite_dtypes(std::span<const DType> dtypes) {
  bool any_float = false, fits_float = true, any_signed = false, any_unsigned = false;
  std::size_t signed_bytes = 1, unsigned_bytes = 1;
  for (const DType dtype : dtypes) {
    if (dtype == DType::kBool) continue;
    const std::size_t bytes = dtype_bytes(dtype);
    if (is_float(dtype)) {
      any_float = true;
      fits_float = fits_float && dtype == DType::kF32;
      continue;
    }
    fits_float = fits_float && bytes <= 2;
    const bool is_signed = is_signed_integer(dtype);
    (is_signed ? any_signed : any_unsigned) = true;
    std::size_t& widest = is_signed ? signed_bytes : unsigned_bytes;
    widest = std::max(widest, bytes);
  }
  if (any_float) return fits_float ? DType::kF32 : DType::kF64;
  if (!any_signed && !any_unsigned) return DType::kBool;
  if (!any_signed) return integer_dtype(unsigned_bytes, false);
  if (!any_unsigned) return integer_dtype(signed_bytes, true);
  return integer_dtype(std::min<std::size_t>(8, std::max(signed_bytes, 2 * unsigned_bytes)), true);
}

Categories convert_categories(const Categories& categories, const ValueType& type,
                              const std::string& what) {
  Categories converted;
  converted.reserve(categories.size());
  for (const Category& category : categories) converted.push_back(convert(category, type, what));
  return converted;
}

UnitedObs unite_obs(const std::string& what, std::span<const ObsDescription* const> columns,
                    std::span<const std::string> paths) {
  require_fit(what, columns, paths);
  UnitedObs united;
  united.form = ObsForm::kCategorical;
  std::vector<DType> dtypes;
  bool is_known = false;
  for (const ObsDescription* column : columns) {
    if (column == nullptr) continue;
    if (says_nothing(*column)) {
      if (!is_known && united.type.kind == ValueKind::kNothing) united.type = column->type;
      continue;
    }
    if (column->form != ObsForm::kCategorical) united.form = column->form;
    if (!is_known) united.type = column->type;
    is_known = true;
    if (column->type.kind == ValueKind::kNumber) dtypes.push_back(column->type.dtype);
  }
  if (!dtypes.empty()) united.type.dtype = unite_dtypes(dtypes);
  if (united.form == ObsForm::kPlain)
    united.recodings.resize(columns.size());
  else
    CategoryUnion(what, united).unite(columns);
  return united;
}

}  // namespace cellfeed::matrix
