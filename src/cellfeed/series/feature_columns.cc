#include "cellfeed/series/feature_columns.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "cellfeed/base/csv_text.h"
#include "cellfeed/base/error.h"

namespace cellfeed::series {
namespace {

// To find whether texts of a column are numbers, so many are looked at, and no more rows than that:
// a column may be empty for long.
constexpr std::int64_t kTextsLookedAt = 1000, kMostRowsLookedAt = 1'000'000;

bool is_named_in(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> other_columns(const RowColumns& columns) {
  std::vector<std::string> others = columns.time;
  if (!columns.entity.empty()) others.push_back(columns.entity);
  if (!columns.fit_mask.empty()) others.push_back(columns.fit_mask);
  others.insert(others.end(), columns.static_columns.begin(), columns.static_columns.end());
  return others;
}

struct TextCounts {
  std::int64_t n_texts = 0, n_numbers = 0;  // without missing ones

  void add(std::span<const std::string_view> texts) {
    for (const std::string_view text : texts) {
      if (is_missing_text(text)) continue;
      ++n_texts;
      if (parse_number(text)) ++n_numbers;
    }
  }
};

}  // namespace

std::vector<std::string> numeric_columns(const Table& table, const RowColumns& columns,
                                         const std::vector<std::string>& texts) {
  const std::vector<std::string> others = other_columns(columns);
  std::vector<std::string> names;
  for (const TableColumn& column : table.columns())
    // An index without a name, as pandas stores it: in text without one.
    if ((column.is_numeric && !column.name.empty() && !column.name.starts_with("__index_level_") &&
         !is_named_in(others, column.name)) ||
        is_named_in(texts, column.name))
      names.push_back(column.name);
  return names;
}

std::vector<std::string> numeric_features(const Table& table, const RowColumns& columns,
                                          const std::vector<std::string>& texts,
                                          std::vector<std::string>& doubts) {
  const std::vector<std::string> others = other_columns(columns);
  for (const TableColumn& column : table.columns())
    if (!column.doubt.empty() && !is_named_in(others, column.name))
      doubts.push_back(
          fmt::format("{}: the column '{}' is no feature, because {}; name it in features where it "
                      "is one",
                      table.path(), column.name, column.doubt));
  for (const std::string& name : texts) {
    if (is_named_in(others, name))
      throw_invalid("the column '{}' is no feature, so that numeric cannot name it", name);
    static_cast<void>(table.column_of(name, "numeric"));
  }
  std::vector<std::string> names = numeric_columns(table, columns, texts);
  if (names.empty())
    throw Error(ErrorKind::kInvalidArgument,
                "has no numeric column but those of time and entity; name the features",
                table.path());
  return names;
}

std::vector<std::string> numbers_in_texts(Table& table, const RowColumns& columns) {
  std::vector<std::string> others = other_columns(columns);
  others.insert(others.end(), columns.features.begin(), columns.features.end());
  std::vector<int> chosen;
  for (int c = 0; c < std::ssize(table.columns()); ++c)
    if (const TableColumn& column = table.columns()[static_cast<std::size_t>(c)];
        column.is_text && !is_named_in(others, column.name))
      chosen.push_back(c);
  if (chosen.empty()) return {};
  table.choose(chosen);
  std::vector<std::string> names;
  std::vector<TextCounts> counts(chosen.size());
  std::vector<std::string_view> texts;
  const auto is_known = [](const TextCounts& one) { return one.n_texts >= kTextsLookedAt; };
  for (std::int64_t n_rows = 0;
       n_rows < kMostRowsLookedAt && !std::ranges::all_of(counts, is_known);) {
    const std::int64_t n = table.next(kTextsLookedAt);
    if (n == 0) break;
    n_rows += n;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      table.texts(chosen[i], texts);
      counts[i].add(texts);
    }
  }
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (2 * counts[i].n_numbers > counts[i].n_texts)
      names.push_back(table.columns()[static_cast<std::size_t>(chosen[i])].name);
  return names;
}

}  // namespace cellfeed::series
