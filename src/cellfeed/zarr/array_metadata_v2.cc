// Arrays of zarr format 2.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cellfeed/zarr/metadata_fields.h"

namespace cellfeed::zarr {
namespace {

using Json = nlohmann::json;

std::string id_of(const Json& codec, const OfArray& of) {
  const Json& id = field_of(codec, "id", of);
  if (!id.is_string()) of.throw_corrupt("a codec has no name");
  return id.get<std::string>();
}

std::size_t shuffled_bytes(const Json& codec, const OfArray& of) {
  const Json& width = codec.value("elementsize", Json(4));
  if (!width.is_number_unsigned() || width.get<std::uint64_t>() == 0 ||
      width.get<std::uint64_t>() > 256)
    of.throw_corrupt("its shuffle has no sound elementsize");
  return width.get<std::size_t>();
}

// Appends what the filter does to bytes; that of texts is known by its type.
void add_filter(const Json& filter, const OfArray& of, const DataType& type, bool& has_texts,
                std::vector<Codec>& codecs) {
  const std::string id = id_of(filter, of);
  if (id == "vlen-utf8" && type.text == "|O" && codecs.empty() && !has_texts)
    has_texts = true;
  else if (id == "shuffle")
    codecs.push_back({CodecKind::kShuffle, shuffled_bytes(filter, of)});
  else
    of.throw_unsupported("it has the filter '{}'; write it with plain filters, or none", id);
}

Codec compressor_of(const Json& json, const OfArray& of) {
  const std::string id = id_of(json, of);
  if (id == "blosc") return {CodecKind::kBlosc};
  if (id == "zlib") return {CodecKind::kZlib};
  if (id == "gzip") return {CodecKind::kGzip};
  if (id == "zstd") return {CodecKind::kZstd};
  if (id == "lz4") return {CodecKind::kLz4};
  if (id == "shuffle") return {CodecKind::kShuffle, shuffled_bytes(json, of)};
  of.throw_unsupported(
      "it has the compressor '{}'; write it with blosc, zstd, lz4, gzip, zlib or none", id);
}

bool is_in_one_line(const ArrayMetadata& array) {
  return std::ranges::count_if(array.chunk_shape, [](std::int64_t n) { return n > 1; }) <= 1;
}

}  // namespace

ArrayMetadata parse_v2_array(const Json& json, const std::string& path, const std::string& name) {
  const OfArray of{path, name};
  ArrayMetadata array;
  if (const Json& format = field_of(json, "zarr_format", of); format != 2)
    of.throw_unsupported("its zarr_format is {}", format.dump());
  array.type = parse_v2_type(field_of(json, "dtype", of));
  set_shapes(lengths_of(json, "shape", 0, of), lengths_of(json, "chunks", 0, of), of, array);
  std::vector<Codec> codecs;
  bool has_texts = false;
  if (const Json filters = json.value("filters", Json()); filters.is_array())
    for (const Json& filter : filters) add_filter(filter, of, array.type, has_texts, codecs);
  else if (!filters.is_null())
    of.throw_corrupt("'filters' is no list");
  if (array.type.kind == TypeKind::kText && !has_texts)
    of.throw_unsupported("it holds Python objects that are no texts");
  if (const Json& compressor = field_of(json, "compressor", of); !compressor.is_null())
    codecs.push_back(compressor_of(compressor, of));
  array.codecs = CodecChain(std::move(codecs));
  if (const Json order = json.value("order", Json("C")); order != "C" && !is_in_one_line(array))
    of.throw_unsupported("it is stored in order {}; write it in order C", order.dump());
  const Json separator = json.value("dimension_separator", Json("."));
  if (separator != "." && separator != "/")
    of.throw_corrupt("its dimension_separator is {}", separator.dump());
  array.separator = separator == "." ? '.' : '/';
  set_fill(json.value("fill_value", Json()), of, array);
  return array;
}

}  // namespace cellfeed::zarr
