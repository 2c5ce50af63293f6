#include "cellfeed/format/shard/obs/shard_identity.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include "cellfeed/base/error.h"

namespace cellfeed::format::shard {
namespace {
constexpr const char* kShardKey = "cellfeed.shard";
}

std::shared_ptr<arrow::Schema> with_shard_number(const std::shared_ptr<arrow::Schema>& schema,
                                                 std::int64_t shard) {
  auto metadata =
      schema->metadata() ? schema->metadata()->Copy() : std::make_shared<arrow::KeyValueMetadata>();
  if (!metadata->Set(kShardKey, std::to_string(shard)).ok())
    throw Error(ErrorKind::kInternal, "cannot set metadata");
  return schema->WithMetadata(metadata);
}

void check_shard_number(const arrow::Schema& schema, std::int64_t shard, const std::string& path) {
  const std::string found =
      schema.metadata() ? schema.metadata()->Get(kShardKey).ValueOr("none") : "none";
  if (found != std::to_string(shard))
    throw_error(
        ErrorKind::kCorruptData, path,
        "this file belongs to shard {}, not to shard {}: were files exchanged? restore them", found,
        shard);
}

}  // namespace cellfeed::format::shard
