#include "cellfeed/collection/label_map.h"

#include <algorithm>
#include <cmath>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {
namespace {

using matrix::Categories;
using matrix::Category;

constexpr std::size_t kShown = 5;

std::string shown_labels(const Categories& labels) {
  std::string text;
  for (std::size_t i = 0; i < std::min(labels.size(), kShown); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", matrix::category_text(labels[i]));
  return labels.size() > kShown ? text + ", ..." : text;
}

// Numbers are one kind, whatever their width.
enum class LabelKind { kText, kBool, kNumber };

LabelKind kind_of(const Category& category) {
  if (std::holds_alternative<std::string>(category)) return LabelKind::kText;
  return std::holds_alternative<bool>(category) ? LabelKind::kBool : LabelKind::kNumber;
}

const char* kind_name(LabelKind kind) {
  return kind == LabelKind::kText ? "text" : kind == LabelKind::kBool ? "booleans" : "numbers";
}

// The given label in the way the files have theirs, so that 1 and 1.0 are one number.
Category like(const Category& label, const Category& example) {
  return std::visit(
      [&](const auto& value) -> Category {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          if (std::holds_alternative<double>(example)) return static_cast<double>(value);
          if constexpr (std::is_same_v<T, std::int64_t>)
            if (std::holds_alternative<std::uint64_t>(example) && value >= 0)
              return static_cast<std::uint64_t>(value);
          if constexpr (std::is_same_v<T, double>)
            if (std::holds_alternative<std::int64_t>(example) && value == std::floor(value) &&
                std::abs(value) <= static_cast<double>(matrix::kExactInFloat64))
              return static_cast<std::int64_t>(value);
        }
        return value;
      },
      label);
}

void require_kind(const std::string& column, const Category& given, const Categories& stored) {
  if (stored.empty() || kind_of(given) == kind_of(stored.front())) return;
  throw_invalid(
      "obs column '{}' has labels that are {}, such as {}; those given for it are {}, such as '{}'",
      column, kind_name(kind_of(stored.front())), shown_labels({stored.front()}),
      kind_name(kind_of(given)), matrix::category_text(given));
}

}  // namespace

std::shared_ptr<const matrix::Recoding> compose(
    const std::shared_ptr<const matrix::Recoding>& first,
    const std::shared_ptr<const matrix::Recoding>& second) {
  if (!first) return second;
  if (!second) return first;
  auto both = std::make_shared<matrix::Recoding>(*first);
  for (std::int32_t& code : *both)
    if (code >= 0) code = (*second)[static_cast<std::size_t>(code)];
  return both;
}

MappedLabels map_labels(const std::string& column, matrix::UnitedObs&& united,
                        const LabelMap& map) {
  MappedLabels mapped;
  mapped.ordered = united.ordered;
  if (!map.labels && !map.unknown) {
    mapped.categories = std::move(united.categories);
    return mapped;
  }
  const Categories& stored = united.categories;
  std::optional<Category> unknown = map.unknown;
  if (unknown && !stored.empty()) unknown = like(*unknown, stored.front());
  if (map.labels) {
    for (const Category& label : *map.labels) {
      require_kind(column, label, stored);
      mapped.categories.push_back(stored.empty() ? label : like(label, stored.front()));
    }
  } else {
    mapped.categories = stored;
    std::erase(mapped.categories, *unknown);
  }
  const auto codes = matrix::codes_of(mapped.categories);
  auto recoding = std::make_shared<matrix::Recoding>();
  Categories lacking;
  for (const Category& label : stored) {
    const auto found = codes.find(label);
    recoding->push_back(found == codes.end() ? -1 : found->second);
    if (found == codes.end() && !unknown) lacking.push_back(label);
  }
  if (!lacking.empty())
    throw_invalid(
        "obs column '{}' has {} {} that the categories given for it lack: {}; add {}, or pass "
        "unknown_label=... to make {} missing (-1)",
        column, lacking.size(), lacking.size() == 1 ? "label" : "labels", shown_labels(lacking),
        lacking.size() == 1 ? "it" : "them", lacking.size() == 1 ? "it" : "them");
  // An order holds where the codes of the labels that are left still rise.
  std::int32_t last = -1;
  for (const std::int32_t code : *recoding) {
    if (code < 0) continue;
    mapped.ordered = mapped.ordered && code > last;
    last = code;
  }
  mapped.recoding = std::move(recoding);
  return mapped;
}

}  // namespace cellfeed::collection
