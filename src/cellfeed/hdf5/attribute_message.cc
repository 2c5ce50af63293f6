// Attribute message, versions 1 to 3.
#include "cellfeed/hdf5/attribute_message.h"

#include "cellfeed/base/checked_size.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint8_t kSharedDatatype = 0x01;
constexpr std::uint8_t kSharedDataspace = 0x02;

// The next n bytes; those of version 1 are padded to a multiple of eight.
Cursor padded_part(Cursor& message, std::uint64_t n, int version, std::string_view name) {
  Cursor part = message.part(n, name);
  if (version == 1) message.skip((8 - n % 8) % 8);
  return part;
}

}  // namespace

Attribute read_attribute_message(Cursor message, const SharedMessages& shared) {
  const int version = message.u8();
  if (version < 1 || version > 3) message.fail("version {} is not known", version);
  const auto flags = message.u8();
  const std::uint16_t name_bytes = message.u16();
  const std::uint16_t type_bytes = message.u16();
  const std::uint16_t space_bytes = message.u16();
  if (version == 3) message.skip(1);
  Attribute attribute;
  attribute.name = padded_part(message, name_bytes, version, "name of an attribute").text();
  Cursor type = padded_part(message, type_bytes, version, "datatype of an attribute");
  Cursor space = padded_part(message, space_bytes, version, "dataspace of an attribute");
  if (version > 1 && (flags & kSharedDatatype) != 0)
    type = shared.resolve(MessageType::kDatatype, type);
  if (version > 1 && (flags & kSharedDataspace) != 0)
    space = shared.resolve(MessageType::kDataspace, space);
  attribute.type = read_datatype_message(type);
  attribute.space = read_dataspace_message(space);
  const CheckedSize n_bytes = CheckedSize(static_cast<std::int64_t>(attribute.space.n_elements)) *
                              CheckedSize(static_cast<std::int64_t>(attribute.type.size));
  if (!n_bytes.fits())
    message.fail("the attribute '{}' has more bytes than can be counted", attribute.name);
  attribute.value = message.bytes(static_cast<std::uint64_t>(n_bytes.value()));
  return attribute;
}

}  // namespace cellfeed::hdf5
