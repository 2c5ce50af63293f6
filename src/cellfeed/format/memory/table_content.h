// table_content: a number that follows from what an Arrow table holds. Pure.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

namespace cellfeed::format::memory {

// Changes with names, types and any value, whatever lies in memory under missing ones and however
// columns are cut into pieces. Throws kUnsupported where the pieces of a column do not make one.
std::uint64_t table_content(const arrow::Table& table);

}  // namespace cellfeed::format::memory
