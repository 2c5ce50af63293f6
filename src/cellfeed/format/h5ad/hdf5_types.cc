#include "cellfeed/format/h5ad/hdf5_types.h"

#include <algorithm>
#include <cstring>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/variable_length.h"

namespace cellfeed::format::h5ad {
namespace {

using hdf5::Datatype;
using hdf5::TypeClass;

bool is_number_size(std::uint64_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

std::uint64_t length_of(const Datatype& array) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : array.array_shape) n *= extent;
  return n;
}

bool has_pointers(const Datatype& type) {
  if (type.is_variable_text()) return true;
  if (type.type_class == TypeClass::kArray) return has_pointers(*type.base);
  return std::ranges::any_of(type.members,
                             [](const auto& member) { return has_pointers(*member.type); });
}

std::size_t memory_bytes(const Datatype& type) {
  if (type.is_variable_text()) return sizeof(const char*);
  if (type.type_class == TypeClass::kArray) return length_of(type) * memory_bytes(*type.base);
  if (type.type_class != TypeClass::kCompound) return type.size;
  std::size_t bytes = 0;
  for (const auto& member : type.members) bytes += memory_bytes(*member.type);
  return bytes;
}

Handle integer_type(const Datatype& type) {
  Handle made(H5Tcopy(type.is_signed ? H5T_STD_I8LE : H5T_STD_U8LE));
  H5Tset_precision(made.get(), 8 * type.size);  // and the size with it
  H5Tset_order(made.get(), type.is_big_endian ? H5T_ORDER_BE : H5T_ORDER_LE);
  return made;
}

// IEEE 754 in 2, 4 or 8 bytes.
Handle float_type(const Datatype& type) {
  Handle made(H5Tcopy(type.size == 8 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE));
  if (type.size == 2) {
    H5Tset_fields(made.get(), 15, 10, 5, 0, 10);
    H5Tset_size(made.get(), 2);
    H5Tset_ebias(made.get(), 15);
  }
  H5Tset_order(made.get(), type.is_big_endian ? H5T_ORDER_BE : H5T_ORDER_LE);
  return made;
}

Handle text_type(const Datatype& type) {
  Handle made(H5Tcopy(H5T_C_S1));
  H5Tset_size(made.get(), type.is_variable_text() ? H5T_VARIABLE : type.size);
  H5Tset_strpad(made.get(), type.padding == hdf5::StringPadding::kZeroTerminated ? H5T_STR_NULLTERM
                            : type.padding == hdf5::StringPadding::kZeroPadded   ? H5T_STR_NULLPAD
                                                                               : H5T_STR_SPACEPAD);
  H5Tset_cset(made.get(), type.is_utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
  return made;
}

// has_pointers: of the whole element, whose compounds then have no gaps.
Handle make_type(const Datatype& type, bool has_pointers) {
  switch (type.type_class) {
    case TypeClass::kFixedPoint:
      return integer_type(type);
    case TypeClass::kFloatingPoint:
      return float_type(type);
    case TypeClass::kString:
    case TypeClass::kVariableLength:
      return text_type(type);
    case TypeClass::kEnumerated: {
      Handle made(H5Tenum_create(make_type(*type.base, has_pointers).get()));
      for (std::size_t i = 0; i < type.enum_names.size(); ++i)
        H5Tenum_insert(made.get(), type.enum_names[i].c_str(),
                       type.enum_values.data() + i * type.base->size);
      return made;
    }
    case TypeClass::kArray: {
      const std::vector<hsize_t> shape(type.array_shape.begin(), type.array_shape.end());
      return Handle(H5Tarray_create2(make_type(*type.base, has_pointers).get(),
                                     static_cast<unsigned>(shape.size()), shape.data()));
    }
    case TypeClass::kCompound: {
      Handle made(H5Tcreate(H5T_COMPOUND, has_pointers ? memory_bytes(type) : type.size));
      std::size_t next = 0;
      for (const auto& member : type.members) {
        H5Tinsert(made.get(), member.name.c_str(), has_pointers ? next : member.offset,
                  make_type(*member.type, has_pointers).get());
        next += memory_bytes(*member.type);
      }
      return made;
    }
    default:
      throw Error(ErrorKind::kInternal, "a type that is not copied: " + type.description());
  }
}

// Sets the texts of elements apart, in the order in which place_element() meets them.
void collect_texts(const hdf5::FileBytes& file, const Datatype& type,
                   std::span<const std::byte> element, std::vector<std::string>& texts) {
  if (type.is_variable_text()) {
    hdf5::Texts read;
    hdf5::append_texts(file, type, element, read);
    texts.emplace_back(read[0]);
  } else if (type.type_class == TypeClass::kArray) {
    for (std::uint64_t i = 0; i < length_of(type); ++i)
      collect_texts(file, *type.base, element.subspan(i * type.base->size, type.base->size), texts);
  } else {
    for (const auto& member : type.members)
      collect_texts(file, *member.type, element.subspan(member.offset, member.type->size), texts);
  }
}

// Returns where the next element goes.
std::byte* place_element(const Datatype& type, std::span<const std::byte> element,
                         const std::string*& next_text, std::byte* to) {
  if (type.is_variable_text()) {
    const char* text = (next_text++)->c_str();
    std::memcpy(to, &text, sizeof(text));
    return to + sizeof(text);
  }
  if (type.type_class == TypeClass::kArray) {
    for (std::uint64_t i = 0; i < length_of(type); ++i)
      to = place_element(*type.base, element.subspan(i * type.base->size, type.base->size),
                         next_text, to);
    return to;
  }
  if (type.type_class == TypeClass::kCompound) {
    for (const auto& member : type.members)
      to = place_element(*member.type, element.subspan(member.offset, member.type->size), next_text,
                         to);
    return to;
  }
  std::memcpy(to, element.data(), element.size());
  return to + element.size();
}

}  // namespace

bool is_copied(const Datatype& type) {
  switch (type.type_class) {
    case TypeClass::kFixedPoint:
      return type.is_standard && is_number_size(type.size);
    case TypeClass::kFloatingPoint:
      return type.is_standard && is_number_size(type.size) && type.size > 1;
    case TypeClass::kString:
      return type.size > 0;
    case TypeClass::kVariableLength:
      return type.is_text;
    case TypeClass::kEnumerated:
      return type.base->type_class == TypeClass::kFixedPoint && is_copied(*type.base) &&
             !type.enum_names.empty();
    case TypeClass::kArray:
      return length_of(type) > 0 && is_copied(*type.base);
    case TypeClass::kCompound:
      return !type.members.empty() && std::ranges::all_of(type.members, [](const auto& member) {
        return is_copied(*member.type);
      });
    default:
      return false;
  }
}

Handle element_type(const Datatype& type) { return make_type(type, has_pointers(type)); }

MemoryElements::MemoryElements(const hdf5::FileBytes& file, const Datatype& type,
                               std::span<const std::byte> stored)
    : elements_(stored) {
  if (!has_pointers(type)) return;
  const auto n = static_cast<std::size_t>(stored.size() / type.size);
  if (type.is_variable_text()) {
    hdf5::Texts read;
    hdf5::append_texts(file, type, stored, read);
    for (std::int64_t i = 0; i < read.size(); ++i) texts_.emplace_back(read[i]);
  } else {
    for (std::size_t i = 0; i < n; ++i)
      collect_texts(file, type, stored.subspan(i * type.size, type.size), texts_);
  }
  owned_.resize(n * memory_bytes(type));
  const std::string* next_text = texts_.data();
  std::byte* to = owned_.data();
  for (std::size_t i = 0; i < n; ++i)
    to = place_element(type, stored.subspan(i * type.size, type.size), next_text, to);
  elements_ = owned_;
}

const void* MemoryElements::data() const {
  static constexpr std::byte kNothing{};  // HDF5 wants a buffer even for no elements
  return elements_.empty() ? &kNothing : elements_.data();
}

}  // namespace cellfeed::format::h5ad
