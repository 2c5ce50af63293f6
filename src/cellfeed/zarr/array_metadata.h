// ArrayMetadata: what .zarray (format 2) or zarr.json (format 3) says of an array. Thread-safe: a
// value.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/zarr/codec_chain.h"
#include "cellfeed/zarr/data_type.h"

namespace cellfeed::zarr {

// Where the index of a shard stands, and whether it ends with its CRC-32C.
struct ShardLayout {
  std::vector<std::int64_t> chunk_shape;  // of the chunks in it
  bool index_is_first = false;
  bool index_has_crc = true;
};

struct ArrayMetadata {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunk_shape;  // of what lies under one key: a chunk or a shard
  DataType type;
  std::vector<std::byte> fill;  // one element; empty for zeros, and of texts for empty ones
  CodecChain codecs;            // of a chunk
  std::optional<ShardLayout> shards;
  std::string key_prefix;  // before the numbers of a chunk: "", "c/"
  char separator = '.';    // between them

  // The chunks that are read.
  const std::vector<std::int64_t>& inner_shape() const {
    return shards ? shards->chunk_shape : chunk_shape;
  }
  // Below the array: "0.1", "c/0/1".
  std::string chunk_key(std::span<const std::int64_t> numbers) const;
};

// Both throw kCorruptData for what is no metadata of an array, kUnsupported for codecs, types and
// layouts that are not readable here. path and name are for messages: of the store, and of the
// array in it.
ArrayMetadata parse_v2_array(const nlohmann::json& json, const std::string& path,
                             const std::string& name);
ArrayMetadata parse_v3_array(const nlohmann::json& json, const std::string& path,
                             const std::string& name);

}  // namespace cellfeed::zarr
