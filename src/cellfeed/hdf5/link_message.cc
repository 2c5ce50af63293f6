// Link message.
#include "cellfeed/hdf5/link_message.h"

namespace cellfeed::hdf5 {
namespace {

enum LinkType : std::uint8_t { kHardType = 0, kSoftType = 1, kExternalType = 64 };

std::string read_text(Cursor& message, std::uint64_t n_bytes) {
  const Bytes text = message.bytes(n_bytes);
  return {reinterpret_cast<const char*>(text.view().data()), text.size()};
}

}  // namespace

Link read_link_message(Cursor message) {
  if (const int version = message.u8(); version != 1)
    message.fail("version {} is not known", version);
  const auto flags = message.u8();
  const std::uint8_t type = (flags & 0x08) != 0 ? message.u8() : std::uint8_t{kHardType};
  if ((flags & 0x04) != 0) message.skip(8);  // creation order
  if ((flags & 0x10) != 0) message.skip(1);  // character set
  Link link;
  const std::uint64_t name_bytes = message.uint(1 << (flags & 0x03));
  if (name_bytes == 0) message.fail("a link without a name");
  link.name = read_text(message, name_bytes);
  switch (type) {
    case kHardType:
      link.address = message.read_address();
      return link;
    case kSoftType:
      link.kind = LinkKind::kSoft;
      link.target = read_text(message, message.u16());
      return link;
    case kExternalType: {
      link.kind = LinkKind::kExternal;
      Cursor value = message.part(message.u16(), "external link");
      value.skip(1);  // version and flags
      link.file = value.text();
      link.target = value.text();
      return link;
    }
    default:
      link.kind = LinkKind::kUserDefined;
      return link;
  }
}

}  // namespace cellfeed::hdf5
