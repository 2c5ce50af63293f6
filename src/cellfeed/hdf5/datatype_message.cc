// Datatype message, versions 1 to 5.
#include "cellfeed/hdf5/datatype_message.h"

#include <algorithm>
#include <array>
#include <bit>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/hdf5/dataspace_message.h"

namespace cellfeed::hdf5 {
namespace {

constexpr int kMaxTypeDepth = 32;  // of types inside of types
constexpr int kLastVersion = 5;

// "Class Bit Field".
using Bits = std::uint32_t;

struct Reading {
  Cursor& message;
  int version = 0;
  int depth = 0;
  Bits bits = 0;
};

Datatype read_type(Cursor& message, int depth);

std::shared_ptr<const Datatype> read_part(const Reading& from) {
  return std::make_shared<const Datatype>(read_type(from.message, from.depth + 1));
}

// A name of versions 1 and 2 is padded to a multiple of eight bytes, its zero byte included.
std::string read_member_name(const Reading& from) {
  const std::size_t begin = from.message.position();
  std::string name = from.message.text();
  if (from.version < 3) {
    const std::size_t n_bytes = from.message.position() - begin;
    from.message.skip((8 - n_bytes % 8) % 8);
  }
  return name;
}

void read_fixed_point(const Reading& from, Datatype& type) {
  type.is_big_endian = (from.bits & 1) != 0;
  type.is_signed = (from.bits & 8) != 0;
  const std::uint16_t bit_offset = from.message.u16();
  const std::uint16_t precision = from.message.u16();
  type.is_standard = bit_offset == 0 && precision == type.size * 8 &&
                     std::has_single_bit(type.size) && type.size <= 8;
}

void read_floating_point(const Reading& from, Datatype& type) {
  // Sign, exponent and mantissa of IEEE 754, by the bytes of a number.
  struct Form {
    std::uint64_t size;
    std::uint16_t precision;
    std::uint8_t sign, exponent_location, exponent_size, mantissa_size;
    std::uint32_t bias;
  };
  constexpr std::array<Form, 3> kForms{
      {{2, 16, 15, 10, 5, 10, 15}, {4, 32, 31, 23, 8, 23, 127}, {8, 64, 63, 52, 11, 52, 1023}}};
  const Bits order = from.bits & 0x41;
  type.is_big_endian = order == 0x01;
  const bool is_normalised = ((from.bits >> 4) & 3) == 2;
  const auto sign = static_cast<std::uint8_t>(from.bits >> 8);
  const std::uint16_t bit_offset = from.message.u16();
  const std::uint16_t precision = from.message.u16();
  const std::uint8_t exponent_location = from.message.u8();
  const std::uint8_t exponent_size = from.message.u8();
  const std::uint8_t mantissa_location = from.message.u8();
  const std::uint8_t mantissa_size = from.message.u8();
  const std::uint32_t bias = from.message.u32();
  type.is_standard = std::any_of(kForms.begin(), kForms.end(), [&](const Form& form) {
    return order != 0x41 && is_normalised && bit_offset == 0 && mantissa_location == 0 &&
           type.size == form.size && precision == form.precision && sign == form.sign &&
           exponent_location == form.exponent_location && exponent_size == form.exponent_size &&
           mantissa_size == form.mantissa_size && bias == form.bias;
  });
}

void read_string(const Reading& from, Datatype& type) {
  type.padding = static_cast<StringPadding>(std::min(from.bits & 0x0f, Bits{2}));
  type.is_utf8 = ((from.bits >> 4) & 0x0f) == 1;
}

std::uint64_t element_bytes(const Datatype& type) { return type.size; }

// Members of version 1 have dimensions of their own.
std::shared_ptr<const Datatype> with_dimensions(std::shared_ptr<const Datatype> base,
                                                std::vector<std::uint64_t> shape,
                                                const Cursor& message) {
  CheckedSize n_bytes(static_cast<std::int64_t>(base->size));
  for (const std::uint64_t length : shape)
    n_bytes = n_bytes * CheckedSize(static_cast<std::int64_t>(length));
  if (!n_bytes.fits()) message.fail("an array of impossible size");
  Datatype array;
  array.type_class = TypeClass::kArray;
  array.size = static_cast<std::uint64_t>(n_bytes.value());
  array.array_shape = std::move(shape);
  array.base = std::move(base);
  return std::make_shared<const Datatype>(std::move(array));
}

Datatype::Member read_member(const Reading& from, int offset_bytes) {
  Cursor& message = from.message;
  Datatype::Member member;
  member.name = read_member_name(from);
  member.offset = message.uint(offset_bytes);
  std::vector<std::uint64_t> shape;
  if (from.version == 1) {
    const int rank = message.u8();
    if (rank > 4) message.fail("a member of {} dimensions", rank);
    message.skip(3 + 4 + 4);
    std::array<std::uint64_t, 4> lengths{};
    for (std::uint64_t& length : lengths) length = message.u32();
    shape.assign(lengths.begin(), lengths.begin() + rank);
  }
  member.type = read_part(from);
  if (!shape.empty()) member.type = with_dimensions(member.type, std::move(shape), message);
  return member;
}

void read_compound(const Reading& from, Datatype& type) {
  const Bits n_members = from.bits & 0xffff;
  const int offset_bytes =
      from.version < 3 ? 4 : std::max((static_cast<int>(std::bit_width(type.size)) + 7) / 8, 1);
  for (Bits i = 0; i < n_members; ++i) {
    Datatype::Member member = read_member(from, offset_bytes);
    const std::uint64_t n_bytes = element_bytes(*member.type);
    if (member.offset > type.size || n_bytes > type.size - member.offset)
      from.message.fail("the member '{}' does not lie inside of its compound", member.name);
    type.members.push_back(std::move(member));
  }
}

void read_enumeration(const Reading& from, Datatype& type) {
  const Bits n = from.bits & 0xffff;
  type.base = read_part(from);
  if (type.base->size != type.size || type.base->type_class != TypeClass::kFixedPoint)
    from.message.fail("an enumeration that is not of integers of its size");
  type.is_big_endian = type.base->is_big_endian;
  type.is_signed = type.base->is_signed;
  for (Bits i = 0; i < n; ++i) type.enum_names.push_back(read_member_name(from));
  const Bytes values = from.message.bytes(n * type.size);
  type.enum_values.assign(values.view().begin(), values.view().end());
}

void read_variable_length(const Reading& from, Datatype& type) {
  const Bits kind = from.bits & 0x0f;
  if (kind > 1) from.message.fail("variable length of kind {}", kind);
  type.is_text = kind == 1;
  type.padding = static_cast<StringPadding>(std::min((from.bits >> 4) & 0x0f, Bits{2}));
  type.is_utf8 = ((from.bits >> 8) & 0x0f) == 1;
  const auto id_bytes = static_cast<std::uint64_t>(4 + from.message.file().offset_size() + 4);
  if (type.size != id_bytes)
    from.message.fail("elements of variable length in {} bytes", type.size);
  type.base = read_part(from);
}

void read_array(const Reading& from, Datatype& type) {
  Cursor& message = from.message;
  const int rank = message.u8();
  if (rank > kMaxDimensions) message.fail("an array of {} dimensions", rank);
  if (from.version < 3) message.skip(3);
  for (int i = 0; i < rank; ++i) type.array_shape.push_back(message.u32());
  if (from.version < 3) message.skip(4 * static_cast<std::uint64_t>(rank));
  type.base = read_part(from);
  if (with_dimensions(type.base, type.array_shape, message)->size != type.size)
    message.fail("an array of another size than its elements");
}

void read_properties(const Reading& from, Datatype& type) {
  switch (type.type_class) {
    case TypeClass::kFixedPoint:
      return read_fixed_point(from, type);
    case TypeClass::kFloatingPoint:
      return read_floating_point(from, type);
    case TypeClass::kTime:
      return from.message.skip(2);
    case TypeClass::kString:
      return read_string(from, type);
    case TypeClass::kBitField:
      type.is_big_endian = (from.bits & 1) != 0;
      return from.message.skip(4);
    case TypeClass::kOpaque:
      return from.message.skip(from.bits & 0xff);
    case TypeClass::kCompound:
      return read_compound(from, type);
    case TypeClass::kReference:
      type.is_object_reference = (from.bits & 0x0f) == 0;
      return;
    case TypeClass::kEnumerated:
      return read_enumeration(from, type);
    case TypeClass::kVariableLength:
      return read_variable_length(from, type);
    case TypeClass::kArray:
      return read_array(from, type);
    case TypeClass::kComplex:
      type.base = read_part(from);
      return;
  }
  from.message.fail("type class {} is not known", static_cast<int>(type.type_class));
}

Datatype read_type(Cursor& message, int depth) {
  if (depth > kMaxTypeDepth)
    message.fail("types inside of types, more than {} deep", kMaxTypeDepth);
  const std::uint8_t class_and_version = message.u8();
  const int version = class_and_version >> 4;
  if (version < 1) message.fail("version {} is not known", version);
  if (version > kLastVersion) message.refuse("version {} is not readable", version);
  const auto bits = static_cast<Bits>(message.uint(3));
  Datatype type;
  type.type_class = static_cast<TypeClass>(class_and_version & 0x0f);
  type.size = message.u32();
  if (type.size == 0) message.fail("elements of no bytes");
  read_properties({message, version, depth, bits}, type);
  return type;
}

}  // namespace

Datatype read_datatype_message(Cursor& message) { return read_type(message, 0); }

bool Datatype::is_boolean() const {
  if (type_class != TypeClass::kEnumerated || size != 1 || enum_names.size() != 2) return false;
  const std::size_t no = enum_names[0] == "FALSE" ? 0 : 1;
  return enum_names[no] == "FALSE" && enum_names[1 - no] == "TRUE" &&
         enum_values[no] == std::byte{0} && enum_values[1 - no] == std::byte{1};
}

std::string Datatype::description() const {
  const std::string order = is_big_endian ? "big-endian " : "";
  const std::uint64_t bits = size * 8;
  switch (type_class) {
    case TypeClass::kFixedPoint:
      return fmt::format("{}{}int{}", order, is_signed ? "" : "u", bits);
    case TypeClass::kFloatingPoint:
      return fmt::format("{}float{}{}", order, bits, is_standard ? "" : " (not IEEE 754)");
    case TypeClass::kTime:
      return "time";
    case TypeClass::kString:
      return fmt::format("string of {} bytes", size);
    case TypeClass::kBitField:
      return fmt::format("{}bit field of {} bits", order, bits);
    case TypeClass::kOpaque:
      return fmt::format("opaque of {} bytes", size);
    case TypeClass::kCompound:
      return "compound";
    case TypeClass::kReference:
      return "reference";
    case TypeClass::kEnumerated:
      return is_boolean() ? "boolean" : "enumeration of " + base->description();
    case TypeClass::kVariableLength:
      return is_text ? "string of variable length" : "sequence of " + base->description();
    case TypeClass::kArray:
      return "array of " + base->description();
    case TypeClass::kComplex:
      return "complex";
  }
  return "unknown";
}

}  // namespace cellfeed::hdf5
