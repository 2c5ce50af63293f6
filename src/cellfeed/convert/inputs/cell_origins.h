// The obs columns that say which file and row a cell comes from. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace arrow {
class Table;
}

namespace cellfeed::convert {

// Whether they are among these columns.
bool names_origins(const std::vector<std::string>& obs_names);
// The table with both columns behind its own, as it is where it has them.
std::shared_ptr<arrow::Table> with_origins(const std::shared_ptr<arrow::Table>& obs,
                                           const std::string& path,
                                           std::span<const std::int64_t> rows);

}  // namespace cellfeed::convert
