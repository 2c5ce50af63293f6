#include "cellfeed/collection/filter_condition.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"

namespace cellfeed::collection {
namespace {

using matrix::Categories;
using matrix::Category;

std::string shown_value(const FilterValue& value) {
  if (!value) return "None";
  if (const auto* text = std::get_if<std::string>(&*value)) return fmt::format("'{}'", *text);
  if (const auto* truth = std::get_if<bool>(&*value)) return *truth ? "True" : "False";
  return matrix::category_text(*value);
}

bool is_missing_value(const FilterValue& value) {
  if (!value) return true;
  const auto* real = std::get_if<double>(&*value);
  return real != nullptr && std::isnan(*real);
}

// Exact, of whole numbers and floats; unordered for NaN.
template <std::integral T>
std::partial_ordering compare_whole(T a, double b) {
  constexpr double kLeast = std::is_signed_v<T> ? -9223372036854775808.0 : 0.0;  // -2^63
  constexpr double kBeyond =
      std::is_signed_v<T> ? 9223372036854775808.0 : 18446744073709551616.0;  // 2^63, 2^64
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kBeyond) return std::partial_ordering::less;
  if (b < kLeast) return std::partial_ordering::greater;
  const double whole = std::floor(b);
  const auto order = a <=> static_cast<T>(whole);
  return order == 0 && whole < b ? std::partial_ordering::less : std::partial_ordering(order);
}

// Texts, booleans and numbers are never equal, as 1 and True would be.
bool are_same_label(const Category& a, const Category& b) {
  return std::visit(
      [](const auto& x, const auto& y) {
        using X = std::decay_t<decltype(x)>;
        using Y = std::decay_t<decltype(y)>;
        constexpr bool is_number = !std::is_same_v<X, std::string> && !std::is_same_v<X, bool> &&
                                   !std::is_same_v<Y, std::string> && !std::is_same_v<Y, bool>;
        if constexpr (std::is_same_v<X, Y>)
          return x == y;
        else if constexpr (is_number && std::is_integral_v<X> && std::is_integral_v<Y>)
          return std::cmp_equal(x, y);
        else if constexpr (is_number && std::is_integral_v<X>)
          return compare_whole(x, y) == 0;
        else if constexpr (is_number)
          return compare_whole(y, x) == 0;
        else
          return false;
      },
      a, b);
}

const char* kind_of_label(const Category& label) {
  if (std::holds_alternative<std::string>(label)) return "text";
  return std::holds_alternative<bool>(label) ? "boolean" : "number";
}

std::string same_kind_text(const Categories& labels, const FilterValue& value) {
  std::vector<std::string> known;
  for (const Category& label : labels) known.push_back(matrix::category_text(label));
  const auto* name = std::get_if<std::string>(&*value);
  return suggestion(name != nullptr ? *name : "", known);
}

// Labels of one kind, and a value of another one.
std::string other_kind_text(const Categories& labels, const FilterValue& value) {
  std::vector<std::string> known;
  std::string same_text;
  for (const Category& label : labels) {
    known.push_back(shown_value(label));
    if (matrix::category_text(label) == matrix::category_text(*value))
      same_text = fmt::format("; write {}", known.back());
  }
  return fmt::format(": its labels are {}s, and {} is a {}{}{}", kind_of_label(labels[0]),
                     shown_value(value), kind_of_label(*value), same_text, suggestion("", known));
}

}  // namespace

FilterCondition::FilterCondition(std::shared_ptr<const JoinedColumn> column, std::string comparison,
                                 const std::vector<FilterValue>& values, const std::string& what,
                                 std::vector<std::string>& warnings)
    : column_(std::move(column)) {
  constexpr std::pair<const char*, Test> kTests[] = {{"==", Test::kEqual},
                                                     {"!=", Test::kUnequal},
                                                     {"<", Test::kLess},
                                                     {"<=", Test::kLessEqual},
                                                     {">", Test::kGreater},
                                                     {">=", Test::kGreaterEqual},
                                                     {"in", Test::kIn},
                                                     {"not in", Test::kNotIn},
                                                     {"is missing", Test::kMissing},
                                                     {"is not missing", Test::kPresent},
                                                     {kIsTrue, Test::kTruth}};
  const auto* const found = std::ranges::find(
      kTests, comparison, [](const auto& test) { return std::string(test.first); });
  if (found == std::end(kTests))
    throw Error(ErrorKind::kInternal, "no comparison of filters: " + comparison);
  test_ = found->second;
  if (test_ == Test::kMissing || test_ == Test::kPresent || test_ == Test::kTruth) return;
  std::vector<FilterValue> known = values;
  if (test_ == Test::kIn || test_ == Test::kNotIn) {
    wants_missing_ = std::erase_if(known, is_missing_value) > 0;
  } else {
    require_comparable(values.at(0), what);
  }
  if (column_->is_categorical())
    take_codes(known, what, warnings);
  else
    take_numbers(known, what);
}

bool FilterCondition::asks_only_missing(const std::string& comparison,
                                        const std::vector<FilterValue>& values) {
  if (comparison == "is missing" || comparison == "is not missing") return true;
  return (comparison == "in" || comparison == "not in") &&
         std::ranges::all_of(values, is_missing_value);
}

void FilterCondition::require_comparable(const FilterValue& value, const std::string& what) const {
  if (is_missing_value(value))
    throw_invalid("{} equals nothing: write {} is missing, or is not missing", shown_value(value),
                  column_->name());
  const bool needs_order = test_ != Test::kEqual && test_ != Test::kUnequal;
  if (needs_order && column_->is_categorical() && !column_->ordered())
    throw_error(ErrorKind::kInvalidType, {},
                "the labels of {} column '{}' have no order; compare with ==, != or in", what,
                column_->name());
}

void FilterCondition::take_numbers(const std::vector<FilterValue>& values,
                                   const std::string& what) {
  for (const FilterValue& value : values) {
    Number number;
    if (const auto* whole = std::get_if<std::int64_t>(&*value)) {
      number.whole = *whole;
    } else if (const auto* truth = std::get_if<bool>(&*value)) {
      number.whole = *truth ? 1 : 0;
    } else if (const auto* large = std::get_if<std::uint64_t>(&*value)) {
      number = {.kind = Number::Kind::kLarge, .large = *large};
    } else if (const auto* real = std::get_if<double>(&*value)) {
      number = {.kind = Number::Kind::kReal, .real = *real};
    } else {
      throw_error(ErrorKind::kInvalidType, {},
                  "{} column '{}' holds {}, which is not compared with {}", what, column_->name(),
                  dtype_name(column_->stored_dtype()), shown_value(value));
    }
    numbers_.push_back(number);
  }
}

void FilterCondition::take_codes(const std::vector<FilterValue>& values, const std::string& what,
                                 std::vector<std::string>& warnings) {
  const Categories& categories = column_->categories();
  std::vector<FilterValue> unknown;
  for (const FilterValue& value : values) {
    const auto found = std::ranges::find_if(
        categories, [&](const Category& category) { return are_same_label(category, *value); });
    if (found == categories.end())
      unknown.push_back(value);
    else
      numbers_.push_back({.whole = found - categories.begin()});
  }
  if (unknown.empty()) return;
  const bool is_of_another_kind =
      !categories.empty() && kind_of_label(categories[0]) != kind_of_label(*unknown[0]);
  const std::string text = fmt::format("{} column '{}' has no label {}{}", what, column_->name(),
                                       shown_value(unknown[0]),
                                       is_of_another_kind ? other_kind_text(categories, unknown[0])
                                                          : same_kind_text(categories, unknown[0]));
  if (unknown.size() < values.size()) return warnings.push_back(text);
  throw Error(is_of_another_kind ? ErrorKind::kInvalidType : ErrorKind::kInvalidArgument, text);
}

template <typename T>
std::partial_ordering FilterCondition::Number::order_of(T value) const {
  if constexpr (std::is_floating_point_v<T>) {
    if (kind == Kind::kReal) return value <=> static_cast<T>(real);
    if constexpr (std::is_same_v<T, float>)
      return value <=>
             (kind == Kind::kWhole ? static_cast<float>(whole) : static_cast<float>(large));
    const auto of_this = kind == Kind::kWhole ? compare_whole(whole, static_cast<double>(value))
                                              : compare_whole(large, static_cast<double>(value));
    return 0 <=> of_this;
  } else if constexpr (std::is_same_v<T, bool>) {
    return order_of(std::int64_t{value});
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const Wide wide = value;
    if (kind == Kind::kReal) return compare_whole(wide, real);
    const auto compare = [wide](auto other) -> std::partial_ordering {
      if (std::cmp_less(wide, other)) return std::partial_ordering::less;
      return std::cmp_equal(wide, other) ? std::partial_ordering::equivalent
                                         : std::partial_ordering::greater;
    };
    return kind == Kind::kWhole ? compare(whole) : compare(large);
  }
}

template <typename T>
bool FilterCondition::holds_of(T value) const {
  const bool is_categorical = column_->is_categorical();
  bool missing = false;
  if constexpr (std::is_floating_point_v<T>) missing = std::isnan(value);
  if constexpr (std::is_same_v<T, std::int64_t>) missing = is_categorical && value < 0;
  if (test_ == Test::kMissing || test_ == Test::kPresent)
    return missing == (test_ == Test::kMissing);
  const auto order = [value](const Number& number) { return number.order_of(value); };
  if (test_ == Test::kIn || test_ == Test::kNotIn) {
    const bool is_in =
        missing ? wants_missing_ : std::ranges::any_of(numbers_, [&](const Number& number) {
          return order(number) == 0;
        });
    return is_in == (test_ == Test::kIn);
  }
  if (missing) return test_ == Test::kUnequal;
  const auto found = order(numbers_[0]);
  switch (test_) {
    case Test::kEqual:
      return found == 0;
    case Test::kUnequal:
      return found != 0;
    case Test::kLess:
      return found < 0;
    case Test::kLessEqual:
      return found <= 0;
    case Test::kGreater:
      return found > 0;
    default:
      return found >= 0;
  }
}

template <typename T>
Truth FilterCondition::truth_of(T value) const {
  if constexpr (std::is_floating_point_v<T>)
    if (test_ == Test::kTruth && std::isnan(value)) return Truth::kUnknown;
  const bool holds = test_ == Test::kTruth ? value != T{} : holds_of(value);
  return holds ? Truth::kTrue : Truth::kFalse;
}

void FilterCondition::test(const void* values, std::span<Truth> holds) const {
  dispatch_dtype(column_->dtype(), [&](auto zero) {
    const auto* of_cells = static_cast<const decltype(zero)*>(values);
    for (std::size_t i = 0; i < holds.size(); ++i) holds[i] = truth_of(of_cells[i]);
  });
}

}  // namespace cellfeed::collection
