// What Arrow does not check of the fixed-width obs of a shard: codes without a category, categories
// that are missing or repeated, bytes that are no booleans.
#pragma once

#include <string>

namespace arrow {
class Field;
class RecordBatch;
}  // namespace arrow

namespace cellfeed::format::shard {

// Whether its bytes are booleans.
bool is_stored_bool(const arrow::Field& field);

// Throws kCorruptData naming the column and the row. Looks at every value.
void check_fixed_obs(const arrow::RecordBatch& batch, const std::string& path);

}  // namespace cellfeed::format::shard
