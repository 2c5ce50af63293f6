#include "cellfeed/zarr/metadata_fields.h"

#include <stdexcept>

#include "cellfeed/base/checked_size.h"

namespace cellfeed::zarr {
namespace {

// Elements, and bytes with those past the edge, fit into 63 bits with room to spare.
constexpr std::int64_t kMaxArrayBytes = std::int64_t{1} << 61;
constexpr std::size_t kMaxRank = 32;

// Of texts of any length, as many as there are in a chunk.
std::int64_t element_bytes(const DataType& type) { return type.bytes == 0 ? 1 : type.bytes; }

}  // namespace

const nlohmann::json& field_of(const nlohmann::json& json, const char* key, const OfArray& of) {
  if (!json.is_object() || !json.contains(key)) of.throw_corrupt("there is no '{}'", key);
  return json[key];
}

std::vector<std::int64_t> lengths_of(const nlohmann::json& json, const char* key,
                                     std::int64_t least, const OfArray& of) {
  const nlohmann::json& list = field_of(json, key, of);
  std::vector<std::int64_t> lengths;
  if (!list.is_array() || list.size() > kMaxRank)
    of.throw_corrupt("'{}' is no list of lengths", key);
  for (const nlohmann::json& length : list) {
    if (!length.is_number_integer() ||
        (length.is_number_unsigned() && length.get<std::uint64_t>() > kMaxArrayBytes) ||
        length.get<std::int64_t>() < least)
      of.throw_corrupt("'{}' holds what is no length", key);
    lengths.push_back(length.get<std::int64_t>());
  }
  return lengths;
}

void set_shapes(std::vector<std::int64_t> shape, std::vector<std::int64_t> chunk_shape,
                const OfArray& of, ArrayMetadata& array) {
  if (shape.size() != chunk_shape.size())
    of.throw_corrupt("it has {} dimensions, its chunks {}", shape.size(), chunk_shape.size());
  CheckedSize chunk(element_bytes(array.type)), all(element_bytes(array.type));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // An array without elements may have chunks without any.
    if (chunk_shape[d] == 0 && shape[d] == 0) chunk_shape[d] = 1;
    if (chunk_shape[d] == 0) of.throw_corrupt("its chunks have no elements");
    chunk = chunk * chunk_shape[d];
    all = all * (shape[d] / chunk_shape[d] + 1) * chunk_shape[d];
  }
  const bool has_shards = array.shards.has_value();
  const std::int64_t most = has_shards ? kMaxArrayBytes : kMaxChunkBytes;
  if (!chunk.fits() || chunk.value() > most)
    of.throw_corrupt("its {} are impossibly large", has_shards ? "shards" : "chunks");
  if (!all.fits() || all.value() > kMaxArrayBytes) of.throw_corrupt("it is impossibly large");
  array.shape = std::move(shape);
  array.chunk_shape = std::move(chunk_shape);
}

void set_fill(const nlohmann::json& json, const OfArray& of, ArrayMetadata& array) {
  if (array.type.kind == TypeKind::kOther) return;
  try {
    array.fill = parse_fill(json, array.type);
  } catch (const std::invalid_argument& error) {
    of.throw_unsupported("its fill_value is {}", error.what());
  }
}

std::string ArrayMetadata::chunk_key(std::span<const std::int64_t> numbers) const {
  std::string key = key_prefix;
  if (numbers.empty()) {
    // An array without dimensions has one chunk.
    if (key_prefix.empty()) return "0";
    key.pop_back();
    return key;
  }
  for (std::size_t d = 0; d < numbers.size(); ++d) {
    if (d > 0) key.push_back(separator);
    key += std::to_string(numbers[d]);
  }
  return key;
}

}  // namespace cellfeed::zarr
