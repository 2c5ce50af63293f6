// Static columns: values that an entity has once, the same in all of its rows. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cellfeed::series {

// Missing, a number, or a text.
using StaticValue = std::variant<std::monostate, double, std::string>;

// As messages show it.
std::string static_text(const StaticValue& value);

class StaticTable {
 public:
  StaticTable() = default;
  explicit StaticTable(std::vector<std::string> names) : names_(std::move(names)) {}

  const std::vector<std::string>& names() const { return names_; }
  std::size_t n_cols() const { return names_.size(); }
  const StaticValue& value(std::int64_t entity, std::size_t column) const {
    return values_[static_cast<std::size_t>(entity) * n_cols() + column];
  }
  // Values of entities from here on are missing until they are seen.
  void resize(std::int64_t n_entities) {
    values_.resize(static_cast<std::size_t>(n_entities) * n_cols());
  }
  // A value in one of the entity's rows; false where another one was seen before. A number that is
  // NaN is missing, and so is a text without data: both are passed over.
  bool see(std::int64_t entity, std::size_t column, double number);
  bool see(std::int64_t entity, std::size_t column, std::string_view text);
  bool see(std::int64_t entity, std::size_t column, const StaticValue& value);
  // What another table knows of an entity; the first column that is another here.
  std::optional<std::size_t> merge(std::int64_t entity, const StaticTable& other,
                                   std::int64_t others);
  // Whether entities have texts in this column. Throws kCorruptData where some have numbers and
  // some have texts, naming both of `entities`.
  bool is_text(std::size_t column, const std::vector<std::string>& entities) const;
  // Throws kCorruptData naming an entity without a value.
  void require_values(const std::vector<std::string>& entities) const;

 private:
  StaticValue& at(std::int64_t entity, std::size_t column) {
    return values_[static_cast<std::size_t>(entity) * n_cols() + column];
  }
  std::vector<std::string> names_;
  std::vector<StaticValue> values_;  // entity by entity
};

// Statics of more rows of the same and of new entities. n_known: entities that were there, whose
// values stay as they are; numbers: of the entities of `added`; names: of all. Throws kCorruptData
// where a known one has another value now.
void append_statics(StaticTable& statics, std::int64_t n_known, const StaticTable& added,
                    std::span<const std::int64_t> numbers, const std::vector<std::string>& names);

// Throws kCorruptData: two rows of an entity differ in a static column.
[[noreturn]] void throw_not_static(const std::string& path, const std::string& where,
                                   const std::string& entity, const std::string& column,
                                   const StaticValue& before, const StaticValue& now);

}  // namespace cellfeed::series
