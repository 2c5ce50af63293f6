#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace arrow {
class Table;
}

namespace cellfeed::matrix {

// The rows of a table in this order, each column in one chunk. Rows may repeat, and -1 is a row of
// nulls. Dictionary columns keep their categories.
std::shared_ptr<arrow::Table> take_rows(const arrow::Table& table,
                                        std::span<const std::int64_t> rows);

}  // namespace cellfeed::matrix
