#include "cellfeed/zarr/data_type.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace cellfeed::zarr {
namespace {

using Json = nlohmann::json;

// No text of one length is longer.
constexpr std::int64_t kMaxElementBytes = std::int64_t{1} << 24;

struct NamedType {
  std::string_view name;
  TypeKind kind;
  std::int64_t bytes;
};
constexpr NamedType kNamedTypes[] = {
    {"bool", TypeKind::kBoolean, 1},    {"int8", TypeKind::kInteger, 1},
    {"int16", TypeKind::kInteger, 2},   {"int32", TypeKind::kInteger, 4},
    {"int64", TypeKind::kInteger, 8},   {"uint8", TypeKind::kUnsigned, 1},
    {"uint16", TypeKind::kUnsigned, 2}, {"uint32", TypeKind::kUnsigned, 4},
    {"uint64", TypeKind::kUnsigned, 8}, {"float16", TypeKind::kFloat, 2},
    {"float32", TypeKind::kFloat, 4},   {"float64", TypeKind::kFloat, 8},
    {"string", TypeKind::kText, 0},     {"variable_length_utf8", TypeKind::kText, 0},
};

// 0 where it is none.
std::int64_t parse_length(std::string_view text) {
  std::int64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && length > 0 && length <= kMaxElementBytes ? length : 0;
}

bool is_known_size(TypeKind kind, std::int64_t bytes) {
  if (kind == TypeKind::kBoolean) return bytes == 1;
  const bool is_usual = bytes == 2 || bytes == 4 || bytes == 8;
  return is_usual || (kind != TypeKind::kFloat && bytes == 1);
}

[[noreturn]] void throw_no_value(const Json& value, const DataType& type) {
  throw std::invalid_argument("no value of type " + type.text + ": " + value.dump());
}

template <typename T>
void put(std::vector<std::byte>& element, T value) {
  element.resize(sizeof value);
  std::memcpy(element.data(), &value, sizeof value);
}

// "0x7fc00000": the bits, the highest first.
std::vector<std::byte> parse_bits(const std::string& text, const DataType& type) {
  std::uint64_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 2, end, bits, 16);
  if (error != std::errc() || stop != end) throw_no_value(text, type);
  std::vector<std::byte> element;
  put(element, bits);
  element.resize(static_cast<std::size_t>(type.bytes));
  return element;
}

double parse_double(const Json& value, const DataType& type) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw_no_value(value, type);
}

// IEEE 754, 16 bits; rounded to the nearest, ties to even.
std::uint16_t half_of(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return sign | 0x7e00;
  int exponent = 0;
  std::frexp(value, &exponent);
  if (std::isinf(value) || exponent > 16) return sign | 0x7c00;
  const int of_last_bit = std::max(exponent - 11, -24);  // below that all are subnormal
  const double units = std::nearbyint(std::ldexp(std::abs(value), -of_last_bit));
  return static_cast<std::uint16_t>(sign + static_cast<int>(units) + ((of_last_bit + 24) << 10));
}

std::vector<std::byte> float_fill(const Json& value, const DataType& type) {
  if (value.is_string() && value.get<std::string>().starts_with("0x"))
    return parse_bits(value.get<std::string>(), type);
  const double number = parse_double(value, type);
  if (number == 0) return {};
  std::vector<std::byte> element;
  if (type.bytes == 8)
    put(element, number);
  else if (type.bytes == 4)
    put(element, static_cast<float>(number));
  else
    put(element, half_of(number));
  return element;
}

std::vector<std::byte> integer_fill(const Json& value, const DataType& type) {
  std::uint64_t bits = 0;
  if (value.is_boolean())
    bits = value.get<bool>() ? 1 : 0;
  else if (value.is_number_unsigned())
    bits = value.get<std::uint64_t>();
  else if (value.is_number_integer())
    bits = static_cast<std::uint64_t>(value.get<std::int64_t>());
  else if (value.is_number_float() && value.get<double>() == 0)
    bits = 0;
  else
    throw_no_value(value, type);
  std::vector<std::byte> element;
  put(element, bits);
  element.resize(static_cast<std::size_t>(type.bytes));
  return element;
}

// kOther, and no fields, where one of them has no length of its own.
void set_fields(std::vector<Field> fields, DataType& type) {
  std::int64_t bytes = 0;
  for (const Field& field : fields) {
    const TypeKind kind = field.type.kind;
    if (kind == TypeKind::kOther || kind == TypeKind::kText || kind == TypeKind::kRecord) return;
    bytes += field.type.bytes;
  }
  if (fields.empty() || bytes > kMaxElementBytes) return;
  type.kind = TypeKind::kRecord;
  type.bytes = bytes;
  type.fields = std::move(fields);
}

// [["a", type], ...]; no fields where two have one name.
template <typename Parse>
void parse_fields(const Json& json, const Parse& parse, DataType& type) {
  if (!json.is_array()) return;
  std::vector<Field> fields;
  for (const Json& field : json) {
    if (!field.is_array() || field.size() != 2 || !field[0].is_string()) return;
    auto name = field[0].get<std::string>();
    if (name.empty() || std::ranges::count(fields, name, &Field::name) > 0) return;
    fields.push_back({std::move(name), parse(field[1])});
  }
  set_fields(std::move(fields), type);
}

// bytes: of the whole number.
void set_complex(std::int64_t bytes, bool is_big_endian, DataType& type) {
  DataType part;
  part.kind = TypeKind::kFloat;
  part.bytes = bytes / 2;
  part.is_big_endian = is_big_endian;
  set_fields({{"r", part}, {"i", part}}, type);
}

}  // namespace

DataType parse_v2_type(const Json& type) {
  DataType found;
  found.text = type.dump();
  if (!type.is_string()) {
    parse_fields(type, parse_v2_type, found);
    return found;
  }
  const auto name = type.get<std::string>();
  found.text = name;
  if (name == "|O") {
    found.kind = TypeKind::kText;  // where a filter says so
    return found;
  }
  if (name.size() < 3) return found;
  found.is_big_endian = name[0] == '>';
  if (name.substr(1) == "c8" || name.substr(1) == "c16") {
    set_complex(name.size() == 3 ? 8 : 16, std::exchange(found.is_big_endian, false), found);
    return found;
  }
  constexpr std::string_view kKinds = "biufSU";
  constexpr TypeKind kOfKinds[] = {TypeKind::kBoolean, TypeKind::kInteger, TypeKind::kUnsigned,
                                   TypeKind::kFloat,   TypeKind::kBytes,   TypeKind::kUtf32};
  const auto at = kKinds.find(name[1]);
  const std::int64_t length = parse_length(std::string_view(name).substr(2));
  if (at == std::string_view::npos || length == 0) return found;
  const TypeKind kind = kOfKinds[at];
  const bool is_text = kind == TypeKind::kBytes || kind == TypeKind::kUtf32;
  if (!is_text && !is_known_size(kind, length)) return found;
  found.kind = kind;
  found.bytes = kind == TypeKind::kUtf32 ? 4 * length : length;
  if (kind != TypeKind::kUtf32 && found.bytes == 1) found.is_big_endian = false;
  return found;
}

DataType parse_v3_type(const Json& type) {
  DataType found;
  found.text = type.is_string() ? type.get<std::string>() : type.dump();
  if (type.is_string()) {
    const auto* named = std::ranges::find(kNamedTypes, found.text, &NamedType::name);
    if (named != std::end(kNamedTypes)) {
      found.kind = named->kind;
      found.bytes = named->bytes;
    }
    if (found.text == "complex64" || found.text == "complex128")
      set_complex(found.text == "complex64" ? 8 : 16, false, found);
    return found;
  }
  if (!type.is_object() || !type.contains("name")) return found;
  const Json settings = type.value("configuration", Json::object());
  if (type["name"] == "structured" && settings.is_object()) {
    parse_fields(settings.value("fields", Json()), parse_v3_type, found);
    return found;
  }
  const Json length = settings.is_object() ? settings.value("length_bytes", Json()) : Json();
  if (!length.is_number_unsigned() || length.get<std::uint64_t>() == 0 ||
      length.get<std::uint64_t>() > kMaxElementBytes)
    return found;
  found.bytes = length.get<std::int64_t>();
  if (type["name"] == "fixed_length_utf32" && found.bytes % 4 == 0)
    found.kind = TypeKind::kUtf32;
  else if (type["name"] == "null_terminated_bytes")
    found.kind = TypeKind::kBytes;
  else
    found.bytes = 0;
  return found;
}

std::vector<std::byte> parse_fill(const Json& value, const DataType& type) {
  std::vector<std::byte> element;
  if (value.is_null() || type.kind == TypeKind::kRecord) return element;
  if (type.holds_texts()) {
    // Where an array of texts has a number for it, zarr itself reads an empty text.
    if (!value.is_string()) return element;
    const auto text = value.get<std::string>();
    // In format 2, bytes are base64, of which these are zeros.
    const bool is_zeros =
        type.kind == TypeKind::kBytes && text.find_first_not_of("A=") == std::string::npos;
    if (type.kind != TypeKind::kText && !text.empty() && !is_zeros) throw_no_value(value, type);
    if (type.kind == TypeKind::kText)
      for (const char c : text) element.push_back(static_cast<std::byte>(c));
    return element;
  }
  element = type.kind == TypeKind::kFloat ? float_fill(value, type) : integer_fill(value, type);
  if (std::ranges::all_of(element, [](std::byte byte) { return byte == std::byte{0}; }))
    element.clear();
  if (type.is_big_endian) std::ranges::reverse(element);
  return element;
}

}  // namespace cellfeed::zarr
