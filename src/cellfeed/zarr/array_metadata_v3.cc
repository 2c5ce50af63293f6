// Arrays of zarr format 3.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/zarr/metadata_fields.h"

namespace cellfeed::zarr {
namespace {

using Json = nlohmann::json;

// Whose index is 256 MiB.
constexpr std::int64_t kMaxShardChunks = std::int64_t{1} << 24;

// "gzip", or {"name": "gzip", "configuration": {...}}.
std::string name_of(const Json& codec, const OfArray& of) {
  const Json& name = codec.is_string() ? codec : field_of(codec, "name", of);
  if (!name.is_string()) of.throw_corrupt("a codec has no name");
  return name.get<std::string>();
}

Json settings_of(const Json& codec, const OfArray& of) {
  Json settings = codec.is_object() ? codec.value("configuration", Json::object()) : Json::object();
  if (settings.is_null()) settings = Json::object();
  if (!settings.is_object()) of.throw_corrupt("a codec has no sound configuration");
  return settings;
}

const Json& list_of(const Json& json, const char* key, const OfArray& of) {
  const Json& list = field_of(json, key, of);
  if (!list.is_array() || list.empty()) of.throw_corrupt("'{}' is no list of codecs", key);
  return list;
}

Codec codec_of_bytes(const Json& json, const OfArray& of) {
  const std::string name = name_of(json, of);
  if (name == "gzip" || name == "numcodecs.gzip") return {CodecKind::kGzip};
  if (name == "numcodecs.zlib") return {CodecKind::kZlib};
  if (name == "zstd" || name == "numcodecs.zstd") return {CodecKind::kZstd};
  if (name == "blosc" || name == "numcodecs.blosc") return {CodecKind::kBlosc};
  if (name == "numcodecs.lz4") return {CodecKind::kLz4};
  if (name == "crc32c") return {CodecKind::kCrc32c};
  of.throw_unsupported("it has the codec '{}'; write it with zstd, blosc, gzip, crc32c or none",
                       name);
}

void check_transpose(const Json& codec, const OfArray& of) {
  const Json order = settings_of(codec, of).value("order", Json());
  if (order == "C") return;
  std::vector<std::size_t> same(order.is_array() ? order.size() : 0);
  std::iota(same.begin(), same.end(), std::size_t{0});
  if (!order.is_array() || order != Json(same))
    of.throw_unsupported("it is stored transposed (order {}); write it in order C", order.dump());
}

void set_byte_order(const Json& codec, const OfArray& of, DataType& type) {
  const Json endian = settings_of(codec, of).value("endian", Json("little"));
  if (endian != "little" && endian != "big" && !endian.is_null())
    of.throw_corrupt("its bytes are in order {}", endian.dump());
  const bool is_big = endian == "big";
  if (type.kind == TypeKind::kRecord)
    for (Field& field : type.fields) field.type.is_big_endian = is_big && field.type.bytes > 1;
  else
    type.is_big_endian = is_big && type.bytes > 1;
}

void set_codecs(const Json& codecs, bool is_in_shard, const OfArray& of, ArrayMetadata& array);

// The index has no codecs but these.
bool index_has_crc(const Json& settings, const OfArray& of) {
  const Json& codecs = list_of(settings, "index_codecs", of);
  const bool is_plain = name_of(codecs[0], of) == "bytes" &&
                        settings_of(codecs[0], of).value("endian", Json("little")) == "little";
  if (!is_plain || codecs.size() > 2 || (codecs.size() == 2 && name_of(codecs[1], of) != "crc32c"))
    of.throw_unsupported("the index of its shards has the codecs {}", codecs.dump());
  return codecs.size() == 2;
}

void set_shards(const Json& codec, const OfArray& of, ArrayMetadata& array) {
  const Json settings = settings_of(codec, of);
  ShardLayout shards;
  shards.chunk_shape = lengths_of(settings, "chunk_shape", 1, of);
  shards.index_has_crc = index_has_crc(settings, of);
  const Json location = settings.value("index_location", Json("end"));
  if (location != "end" && location != "start")
    of.throw_corrupt("the index of its shards is at {}", location.dump());
  shards.index_is_first = location == "start";
  set_codecs(list_of(settings, "codecs", of), true, of, array);
  array.shards = std::move(shards);
}

void set_codecs(const Json& codecs, bool is_in_shard, const OfArray& of, ArrayMetadata& array) {
  std::size_t at = 0;
  while (at < codecs.size() && name_of(codecs[at], of) == "transpose")
    check_transpose(codecs[at++], of);
  if (at == codecs.size()) of.throw_corrupt("no codec makes bytes of its elements");
  const std::string name = name_of(codecs[at], of);
  if (name == "sharding_indexed") {
    if (is_in_shard) of.throw_unsupported("its shards hold shards (sharding_indexed twice)");
    if (at + 1 < codecs.size())
      of.throw_unsupported("its shards are compressed as a whole ('{}' after sharding_indexed)",
                           name_of(codecs[at + 1], of));
    return set_shards(codecs[at], of, array);
  }
  if (name == "bytes" && array.type.kind != TypeKind::kText)
    set_byte_order(codecs[at], of, array.type);
  else if (name != "vlen-utf8" || array.type.kind != TypeKind::kText)
    of.throw_unsupported("elements of type {} have the codec '{}'", array.type.text, name);
  std::vector<Codec> of_bytes;
  for (++at; at < codecs.size(); ++at) of_bytes.push_back(codec_of_bytes(codecs[at], of));
  array.codecs = CodecChain(std::move(of_bytes));
}

void set_keys(const Json& json, const OfArray& of, ArrayMetadata& array) {
  const Json encoding = json.value("chunk_key_encoding", Json("default"));
  const std::string name = name_of(encoding, of);
  if (name != "default" && name != "v2")
    of.throw_unsupported("its chunks have keys in the way of '{}'", name);
  array.key_prefix = name == "default" ? "c/" : "";
  const Json separator =
      settings_of(encoding, of).value("separator", Json(name == "default" ? "/" : "."));
  if (separator != "." && separator != "/")
    of.throw_corrupt("the separator of its keys is {}", separator.dump());
  array.separator = separator == "." ? '.' : '/';
  if (name == "default") array.key_prefix[1] = array.separator;
}

void check_shards(const OfArray& of, const ArrayMetadata& array) {
  const auto& inner = array.shards->chunk_shape;
  if (inner.size() != array.shape.size())
    of.throw_corrupt("it has {} dimensions, the chunks of its shards {}", array.shape.size(),
                     inner.size());
  CheckedSize bytes(std::max<std::int64_t>(array.type.bytes, 1)), n_chunks(1);
  for (std::size_t d = 0; d < inner.size(); ++d) {
    bytes = bytes * inner[d];
    n_chunks = n_chunks * (array.chunk_shape[d] / inner[d]);
    if (array.chunk_shape[d] % inner[d] != 0)
      of.throw_corrupt("shards of {} are no whole number of chunks of {} along dimension {}",
                       array.chunk_shape[d], inner[d], d);
  }
  if (!bytes.fits() || bytes.value() > kMaxChunkBytes || !n_chunks.fits() ||
      n_chunks.value() > kMaxShardChunks)
    of.throw_corrupt("the chunks of its shards are impossibly large, or many");
}

}  // namespace

ArrayMetadata parse_v3_array(const Json& json, const std::string& path, const std::string& name) {
  const OfArray of{path, name};
  ArrayMetadata array;
  if (const Json& format = field_of(json, "zarr_format", of); format != 3)
    of.throw_unsupported("its zarr_format is {}", format.dump());
  array.type = parse_v3_type(field_of(json, "data_type", of));
  if (array.type.kind == TypeKind::kOther)
    of.throw_unsupported("its elements are of type {}", array.type.text);
  set_codecs(list_of(json, "codecs", of), false, of, array);
  const Json& grid = field_of(json, "chunk_grid", of);
  if (name_of(grid, of) != "regular")
    of.throw_unsupported("its chunks lie in a grid of the kind '{}'", name_of(grid, of));
  set_shapes(lengths_of(json, "shape", 0, of),
             lengths_of(settings_of(grid, of), "chunk_shape", 0, of), of, array);
  if (array.shards) check_shards(of, array);
  if (const Json transformers = json.value("storage_transformers", Json::array());
      !transformers.empty())
    of.throw_unsupported("it has storage_transformers: {}", transformers.dump());
  set_keys(json, of, array);
  set_fill(json.value("fill_value", Json()), of, array);
  return array;
}

}  // namespace cellfeed::zarr
