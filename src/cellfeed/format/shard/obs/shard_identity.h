// The number of a shard inside its obs files, so that files of two shards that were exchanged are
// told apart.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace arrow {
class Schema;
}

namespace cellfeed::format::shard {

std::shared_ptr<arrow::Schema> with_shard_number(const std::shared_ptr<arrow::Schema>& schema,
                                                 std::int64_t shard);
// Throws kCorruptData naming both shards.
void check_shard_number(const arrow::Schema& schema, std::int64_t shard, const std::string& path);

}  // namespace cellfeed::format::shard
