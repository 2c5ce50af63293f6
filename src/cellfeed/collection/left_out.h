// What stores leave out of their files though nobody asked for that. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// One line that names the first file, and how many more there are; empty where nothing is left out.
std::string left_out_text(std::span<const format::RowStore* const> stores);

// Why a column such as "obs/score" is not in this table; empty where nothing forbids it.
std::string why_unreadable(const arrow::Table& table, const std::string& column);

struct Unreadable {
  std::vector<std::string> columns;  // "obs/score", of any store
  std::string text;                  // one line, as left_out_text; empty where there are none
};
using ReadTable = std::function<std::shared_ptr<arrow::Table>(const format::RowStore&)>;
// No row of it.
std::shared_ptr<arrow::Table> read_no_obs(const format::RowStore& store);
// Columns that cannot be read, which these tables go without, where they are wanted. Looks at each
// AnnData store.
Unreadable find_unreadable(std::int64_t n_stores,
                           const std::function<const format::RowStore&(std::int64_t)>& store,
                           const ReadTable& read,
                           const std::function<bool(const std::string&)>& is_wanted = {});

}  // namespace cellfeed::collection
