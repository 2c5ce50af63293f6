#include "cellfeed/zarr/array_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cellfeed/base/error.h"

namespace cellfeed::zarr {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json v2() {
  return Json::parse(R"({"zarr_format": 2, "shape": [10, 7], "chunks": [4, 7], "dtype": "<f4",
                         "compressor": {"id": "blosc"}, "filters": null, "fill_value": 0,
                         "order": "C"})");
}

Json v3() {
  return Json::parse(R"({"zarr_format": 3, "node_type": "array", "shape": [10, 7],
      "data_type": "int16", "fill_value": -2,
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
      "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3],
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "gzip"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                         {"name": "crc32c"}], "index_location": "start"}}]})");
}

std::string why_not(const Json& json, int format) {
  try {
    format == 2 ? parse_v2_array(json, "a.zarr", "X") : parse_v3_array(json, "a.zarr", "X");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'X'"));
    EXPECT_EQ(error.path(), "a.zarr");
    return error.what();
  }
  ADD_FAILURE() << "no error: " << json.dump();
  return "";
}

TEST(ArrayMetadata, OfFormat2) {
  ArrayMetadata array = parse_v2_array(v2(), "a.zarr", "X");
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{10, 7}));
  EXPECT_EQ(array.inner_shape(), (std::vector<std::int64_t>{4, 7}));
  EXPECT_EQ(array.codecs.name(), "blosc");
  EXPECT_TRUE(array.fill.empty());
  EXPECT_EQ(array.chunk_key(std::vector<std::int64_t>{2, 0}), "2.0");
  Json json = v2();
  json["dimension_separator"] = "/";
  json["fill_value"] = "NaN";
  array = parse_v2_array(json, "a.zarr", "X");
  EXPECT_EQ(array.chunk_key(std::vector<std::int64_t>{2, 0}), "2/0");
  EXPECT_EQ(array.fill.size(), 4u);
}

TEST(ArrayMetadata, OfFormat3) {
  const ArrayMetadata array = parse_v3_array(v3(), "a.zarr", "X");
  ASSERT_TRUE(array.shards);
  EXPECT_TRUE(array.shards->index_is_first);
  EXPECT_TRUE(array.shards->index_has_crc);
  EXPECT_EQ(array.inner_shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(array.type.is_big_endian);
  EXPECT_EQ(array.fill, (std::vector{std::byte{0xff}, std::byte{0xfe}}));
  EXPECT_EQ(array.chunk_key(std::vector<std::int64_t>{2, 1}), "c/2/1");
  EXPECT_EQ(array.chunk_key({}), "c");
}

TEST(DataType, RecordsAndComplexNumbers) {
  const DataType record =
      parse_v2_type(Json::parse(R"([["a", "<U3"], ["b", ">f8"], ["c", "|S2"]])"));
  EXPECT_EQ(record.kind, TypeKind::kRecord);
  EXPECT_EQ(record.bytes, 12 + 8 + 2);
  ASSERT_EQ(record.fields.size(), 3u);
  EXPECT_EQ(record.fields[0].type.kind, TypeKind::kUtf32);
  EXPECT_TRUE(record.fields[1].type.is_big_endian);
  EXPECT_FALSE(record.is_number() || record.holds_texts());
  const DataType of_v3 = parse_v3_type(Json::parse(R"({"name": "structured", "configuration":
      {"fields": [["x", "int16"], ["y", {"name": "fixed_length_utf32",
                                         "configuration": {"length_bytes": 8}}]]}})"));
  EXPECT_EQ(of_v3.kind, TypeKind::kRecord);
  EXPECT_EQ(of_v3.bytes, 10);
  for (const auto& [type, part] : {std::pair{parse_v2_type("<c8"), 4},
                                   {parse_v2_type(">c16"), 8},
                                   {parse_v3_type("complex64"), 4}}) {
    ASSERT_EQ(type.fields.size(), 2u) << type.text;
    EXPECT_EQ(type.fields[1].name, "i");
    EXPECT_EQ(type.fields[1].type.bytes, part);
  }
  for (const char* type :
       {R"([["a", "<i4"], ["a", "<i4"]])", R"([["a", "|O"]])", R"([["", "<i4"]])",
        R"([["a", "<i4", [2]]])", R"([["a", [["b", "<i4"]]]])", "[]", "[3]",
        R"([["a", "<U4000000"], ["b", "<U4000000"]])"})
    EXPECT_EQ(parse_v2_type(Json::parse(type)).kind, TypeKind::kOther) << type;
}

TEST(ArrayMetadata, WhatDoesNotFitTogetherIsNamed) {
  for (const auto& [key, value, text] : {std::tuple{"shape", "[10]", "dimensions"},
                                         {"shape", "[-1, 7]", "no length"},
                                         {"shape", "[10, 1e300]", "no length"},
                                         {"shape", "\"x\"", "no list"},
                                         {"shape", "[4611686018427387904, 7]", "no length"},
                                         {"shape", "[1000000000000, 10000000]", "impossibly large"},
                                         {"chunks", "[0, 7]", "no elements"},
                                         {"chunks", "[4000000000, 7000]", "impossibly large"},
                                         {"dimension_separator", "\"-\"", "dimension_separator"},
                                         {"compressor", "{\"id\": 3}", "no name"},
                                         {"compressor", "{\"id\": \"lzma\"}", "'lzma'"},
                                         {"filters", "[{\"id\": \"vlen-utf8\"}]", "'vlen-utf8'"},
                                         {"order", "\"F\"", "order"},
                                         {"dtype", "\"|O\"", "no texts"},
                                         {"fill_value", "\"x\"", "fill_value"}}) {
    Json json = v2();
    json[key] = Json::parse(value);
    EXPECT_THAT(why_not(json, 2), HasSubstr(text)) << key;
  }
  for (const char* key : {"shape", "chunks", "dtype", "compressor", "zarr_format"}) {
    Json json = v2();
    json.erase(key);
    EXPECT_THAT(why_not(json, 2), HasSubstr(key));
  }
}

TEST(ArrayMetadata, ShardsThatAreNotReadAreNamed) {
  const auto with = [](const char* pointer, const char* value) {
    Json json = v3();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return why_not(json, 3);
  };
  EXPECT_THAT(with("/codecs/0/configuration/chunk_shape", "[3, 3]"), HasSubstr("whole number"));
  EXPECT_THAT(with("/codecs/0/configuration/chunk_shape", "[2]"), HasSubstr("dimensions"));
  EXPECT_THAT(with("/codecs/0/configuration/chunk_shape", "[0, 3]"), HasSubstr("no length"));
  EXPECT_THAT(with("/codecs/0/configuration/index_location", "\"middle\""), HasSubstr("middle"));
  EXPECT_THAT(with("/codecs/0/configuration/index_codecs", "[{\"name\": \"zstd\"}]"),
              HasSubstr("the index of its shards"));
  EXPECT_THAT(with("/codecs/0/configuration/codecs/0", v3()["codecs"][0].dump().c_str()),
              HasSubstr("sharding_indexed twice"));
  EXPECT_THAT(with("/codecs/1", "{\"name\": \"gzip\"}"), HasSubstr("as a whole"));
  EXPECT_THAT(with("/codecs", "[]"), HasSubstr("no list of codecs"));
  EXPECT_THAT(with("/data_type", "\"int128\""), HasSubstr("int128"));
  EXPECT_THAT(with("/storage_transformers", "[1]"), HasSubstr("storage_transformers"));
}

}  // namespace
}  // namespace cellfeed::zarr
