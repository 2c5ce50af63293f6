// Datatype message: what one element is. HDF5 File Format Specification 4.0, IV.A.2.d.
// Thread-safe: a value; parts are shared and immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {

enum class TypeClass : std::uint8_t {
  kFixedPoint = 0,
  kFloatingPoint = 1,
  kTime = 2,
  kString = 3,
  kBitField = 4,
  kOpaque = 5,
  kCompound = 6,
  kReference = 7,
  kEnumerated = 8,
  kVariableLength = 9,
  kArray = 10,
  kComplex = 11,
};

enum class StringPadding : std::uint8_t { kZeroTerminated = 0, kZeroPadded = 1, kSpacePadded = 2 };

struct Datatype {
  struct Member {
    std::string name;
    std::uint64_t offset = 0;
    std::shared_ptr<const Datatype> type;
  };

  TypeClass type_class = TypeClass::kFixedPoint;
  std::uint64_t size = 0;  // bytes of an element
  bool is_big_endian = false;
  bool is_signed = false;  // kFixedPoint
  // kFixedPoint, kFloatingPoint: all bits count, and those of a float lie as IEEE 754 has them for
  // 2, 4 or 8 bytes. What is not so is not readable as a number.
  bool is_standard = true;
  bool is_utf8 = false;  // kString and kVariableLength
  bool is_text = false;  // kVariableLength: of characters, not a sequence
  StringPadding padding = StringPadding::kZeroTerminated;
  std::vector<Member> members;           // kCompound
  std::shared_ptr<const Datatype> base;  // kEnumerated, kVariableLength, kArray
  std::vector<std::uint64_t> array_shape;
  std::vector<std::string> enum_names;
  std::vector<std::byte> enum_values;  // one of base's size a name
  bool is_object_reference = false;    // kReference

  // Of an enumeration of one byte with FALSE = 0 and TRUE = 1, as NumPy's booleans are stored.
  bool is_boolean() const;
  bool is_variable_text() const { return type_class == TypeClass::kVariableLength && is_text; }
  // For messages: "int32", "big-endian float64", "compound".
  std::string description() const;
};

// message: its bytes, more may follow. Leaves the cursor behind what it read. Throws kCorruptData,
// or kUnsupported for a version that is not known.
Datatype read_datatype_message(Cursor& message);

}  // namespace cellfeed::hdf5
