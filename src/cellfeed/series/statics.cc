#include "cellfeed/series/statics.h"

#include <fmt/format.h>

#include <cmath>

#include "cellfeed/base/error.h"

namespace cellfeed::series {

std::string static_text(const StaticValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  return "none";
}

bool StaticTable::see(std::int64_t entity, std::size_t column, double number) {
  if (std::isnan(number)) return true;
  StaticValue& known = at(entity, column);
  if (std::holds_alternative<std::monostate>(known)) known = number;
  const auto* const before = std::get_if<double>(&known);
  return before != nullptr && *before == number;
}

bool StaticTable::see(std::int64_t entity, std::size_t column, std::string_view text) {
  if (text.data() == nullptr) return true;
  StaticValue& known = at(entity, column);
  if (std::holds_alternative<std::monostate>(known)) known = std::string(text);
  const auto* const before = std::get_if<std::string>(&known);
  return before != nullptr && *before == text;
}

bool StaticTable::see(std::int64_t entity, std::size_t column, const StaticValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return see(entity, column, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return see(entity, column, std::string_view(*text));
  return true;
}

std::optional<std::size_t> StaticTable::merge(std::int64_t entity, const StaticTable& other,
                                              std::int64_t others) {
  for (std::size_t c = 0; c < n_cols(); ++c)
    if (!see(entity, c, other.value(others, c))) return c;
  return std::nullopt;
}

bool StaticTable::is_text(std::size_t column, const std::vector<std::string>& entities) const {
  std::optional<std::size_t> number, text;
  for (std::size_t e = 0; e < entities.size(); ++e) {
    const StaticValue& found = value(static_cast<std::int64_t>(e), column);
    if (std::holds_alternative<double>(found) && !number) number = e;
    if (std::holds_alternative<std::string>(found) && !text) text = e;
  }
  if (number && text)
    throw_error(ErrorKind::kCorruptData, "",
                "the static column '{}' is a number of entity '{}' and a text of entity '{}': make "
                "them one type",
                names_[column], entities[*number], entities[*text]);
  return text.has_value();
}

void StaticTable::require_values(const std::vector<std::string>& entities) const {
  for (std::size_t e = 0; e < entities.size(); ++e)
    for (std::size_t c = 0; c < n_cols(); ++c)
      if (std::holds_alternative<std::monostate>(value(static_cast<std::int64_t>(e), c)))
        throw_error(ErrorKind::kCorruptData, "",
                    "entity '{}' has no value of the static column '{}' in any row; choose what "
                    "becomes of missing values with missing (drop, ffill, nan)",
                    entities[e], names_[c]);
}

void append_statics(StaticTable& statics, std::int64_t n_known, const StaticTable& added,
                    std::span<const std::int64_t> numbers, const std::vector<std::string>& names) {
  statics.resize(std::ssize(names));
  for (std::size_t s = 0; s < numbers.size(); ++s) {
    const std::int64_t entity = numbers[s];
    for (std::size_t c = 0; c < statics.n_cols(); ++c) {
      const StaticValue& now = added.value(static_cast<std::int64_t>(s), c);
      const StaticValue before = statics.value(entity, c);
      const bool is_missing = std::holds_alternative<std::monostate>(now);
      if (entity < n_known && !is_missing && now != before)
        throw_not_static("", "", names[static_cast<std::size_t>(entity)], statics.names()[c],
                         before, now);
      if (entity >= n_known) statics.see(entity, c, now);
    }
  }
  for (std::size_t c = 0; c < statics.n_cols(); ++c) (void)statics.is_text(c, names);
}

void throw_not_static(const std::string& path, const std::string& where, const std::string& entity,
                      const std::string& column, const StaticValue& before,
                      const StaticValue& now) {
  throw_error(ErrorKind::kCorruptData, path,
              "{}the static column '{}' of entity '{}' is {} where it was {} before: it has one "
              "value an entity, so take it as a feature instead",
              where, column, entity, static_text(now), static_text(before));
}

}  // namespace cellfeed::series
