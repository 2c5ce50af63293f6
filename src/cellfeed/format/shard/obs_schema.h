// The obs columns that the shards of one directory share, and how a source's table is brought to
// them. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace arrow {
class Schema;
class Table;
}  // namespace arrow

namespace cellfeed::format::shard {

inline constexpr const char* kIndexColumn = "_index";
inline constexpr const char* kSourceFileColumn = "_source_file";
inline constexpr const char* kSourceRowColumn = "_source_row";

// One schema for all sources: every column of any of them in order of first appearance ("_index"
// first), categoricals as dictionary<int32, ...>, numbers widened without loss, bool with bool.
// Ends with _source_file and _source_row. Throws kInvalidArgument naming the column and both
// sources where types do not fit.
std::shared_ptr<arrow::Schema> unify_obs_schemas(
    std::span<const std::shared_ptr<arrow::Schema>> schemas,
    std::span<const std::string> source_names);

// A source's rows in that schema: missing columns become missing values; _source_file and
// _source_row are set unless the table brings both along (a shard directory converted again keeps
// the first origin of its cells).
std::shared_ptr<arrow::Table> conform_obs(const std::shared_ptr<arrow::Table>& obs,
                                          const std::shared_ptr<arrow::Schema>& schema,
                                          const std::string& source_name,
                                          std::span<const std::int64_t> source_rows);

}  // namespace cellfeed::format::shard
