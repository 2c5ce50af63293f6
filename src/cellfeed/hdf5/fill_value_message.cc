// Fill Value messages: the old one, and versions 1 to 3.
#include "cellfeed/hdf5/fill_value_message.h"

namespace cellfeed::hdf5 {
namespace {

Bytes read_sized(Cursor& message) {
  const std::uint32_t n_bytes = message.u32();
  return message.bytes(n_bytes);
}

}  // namespace

Bytes read_old_fill_value_message(Cursor message) { return read_sized(message); }

Bytes read_fill_value_message(Cursor message) {
  const int version = message.u8();
  if (version < 1 || version > 3) message.fail("version {} is not known", version);
  if (version == 3) {
    constexpr std::uint8_t kDefined = 0x20;
    const auto flags = message.u8();
    return (flags & kDefined) != 0 ? read_sized(message) : Bytes();
  }
  message.skip(2);  // when space is allocated, when it is filled
  const bool is_defined = message.u8() != 0;
  return is_defined ? read_sized(message) : Bytes();
}

}  // namespace cellfeed::hdf5
