// DataType: what one element of a zarr array is, and how its codecs store it. Thread-safe: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cellfeed::zarr {

enum class TypeKind {
  kBoolean,
  kInteger,
  kUnsigned,
  kFloat,
  kBytes,  // texts of one length, padded with zeros
  kUtf32,  // the same, of code points
  kText,   // of any length
  kRecord,
  kOther,
};

struct Field;

struct DataType {
  TypeKind kind = TypeKind::kOther;
  std::int64_t bytes = 0;  // of an element; 0 of kText and kOther
  bool is_big_endian = false;
  std::string text;  // as the metadata has it, for messages
  std::vector<Field>
      fields;  // of kRecord: one behind the other, as complex numbers are "r" and "i"

  bool is_number() const {
    return kind == TypeKind::kBoolean || kind == TypeKind::kInteger ||
           kind == TypeKind::kUnsigned || kind == TypeKind::kFloat;
  }
  bool holds_texts() const {
    return kind == TypeKind::kBytes || kind == TypeKind::kUtf32 || kind == TypeKind::kText;
  }
};

struct Field {
  std::string name;
  DataType type;
};

// Of zarr format 2: "<f4", "|S10", "|O", [["a", "<i4"], ...]. What is not known here is kOther.
DataType parse_v2_type(const nlohmann::json& type);
// Of format 3: "float32", "string", {"name": "fixed_length_utf32", ...}.
DataType parse_v3_type(const nlohmann::json& type);

// One element that was never written, as it would be stored; no bytes mean zeros, of texts an empty
// one, and of records that it is not known. REQUIRES: not kOther. Throws std::invalid_argument for
// what is no value of the type.
std::vector<std::byte> parse_fill(const nlohmann::json& value, const DataType& type);

}  // namespace cellfeed::zarr
