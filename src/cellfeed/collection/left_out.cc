// What stores leave out of their files.
#include "cellfeed/collection/left_out.h"

#include <arrow/api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "cellfeed/format/unreadable_columns.h"

namespace cellfeed::collection {
namespace {

std::string with_more(const std::string& first, std::int64_t n_more) {
  return n_more > 0 ? fmt::format("{} (likewise of {} more files)", first, n_more) : first;
}

// Names, and what is said of the first.
std::vector<std::string> unreadable_of(const arrow::Table& table,
                                       const std::function<bool(const std::string&)>& is_wanted,
                                       std::string& why) {
  std::vector<std::string> names;
  const auto& metadata = table.schema()->metadata();
  if (!metadata || !metadata->Contains(format::kUnreadableKey)) return names;
  std::istringstream lines(metadata->Get(format::kUnreadableKey).ValueOr(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (is_wanted && !is_wanted(line.substr(0, tab))) continue;
    if (names.empty()) why = line.substr(std::min(tab + 1, line.size()));
    names.push_back(line.substr(0, tab));
  }
  return names;
}

}  // namespace

std::string left_out_text(std::span<const format::RowStore* const> stores) {
  std::string first;
  std::int64_t n_more = -1;
  for (const format::RowStore* store : stores) {
    if (store->info().left_out.empty()) continue;
    if (++n_more == 0) first = fmt::format("{}: {}", store->info().path, store->info().left_out);
  }
  return with_more(first, n_more);
}

std::shared_ptr<arrow::Table> read_no_obs(const format::RowStore& store) {
  return store.read_obs(0, 0);
}

std::string why_unreadable(const arrow::Table& table, const std::string& column) {
  std::string why;
  unreadable_of(table, [&](const std::string& name) { return name == column; }, why);
  return why;
}

Unreadable find_unreadable(std::int64_t n_stores,
                           const std::function<const format::RowStore&(std::int64_t)>& store,
                           const ReadTable& read,
                           const std::function<bool(const std::string&)>& is_wanted) {
  constexpr std::size_t kNamed = 5;
  Unreadable found;
  std::int64_t n_more = -1;
  for (std::int64_t s = 0; s < n_stores; ++s) {
    const std::string& format = store(s).info().format;
    if (format != "h5ad" && format != "zarr") continue;
    std::string why;
    std::vector<std::string> names = unreadable_of(*read(store(s)), is_wanted, why);
    if (names.empty()) continue;
    found.columns.insert(found.columns.end(), names.begin(), names.end());
    if (++n_more > 0) continue;
    const std::size_t n = names.size();
    names.resize(std::min(n, kNamed));
    if (n > kNamed) names.push_back(fmt::format("{} more", n - kNamed));
    found.text = fmt::format("columns that cannot be read are left out: {} ({})",
                             fmt::join(names, ", "), why);
  }
  found.text = with_more(found.text, n_more);
  return found;
}

}  // namespace cellfeed::collection
