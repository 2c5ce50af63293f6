// Dataspace message, versions 1 and 2.
#include "cellfeed/hdf5/dataspace_message.h"

#include <algorithm>

#include "cellfeed/base/checked_size.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint8_t kHasMaxShape = 0x01;

// A dimension of length 0 makes the product 0, whatever stands beside it.
std::uint64_t count_elements(const std::vector<std::uint64_t>& shape, const Cursor& message) {
  if (std::find(shape.begin(), shape.end(), std::uint64_t{0}) != shape.end()) return 0;
  CheckedSize n(1);
  for (const std::uint64_t length : shape) n = n * CheckedSize(static_cast<std::int64_t>(length));
  if (!n.fits()) message.fail("more elements than can be counted");
  return static_cast<std::uint64_t>(n.value());
}

}  // namespace

Dataspace read_dataspace_message(Cursor message) {
  const int version = message.u8();
  if (version != 1 && version != 2) message.fail("version {} is not known", version);
  const int rank = message.u8();
  if (rank > kMaxDimensions)
    message.fail("{} dimensions, at most {} are legal", rank, kMaxDimensions);
  const auto flags = message.u8();
  Dataspace space;
  if (version == 1) {
    message.skip(5);
    space.kind = rank == 0 ? Dataspace::Kind::kScalar : Dataspace::Kind::kSimple;
  } else {
    const auto kind = message.u8();
    if (kind > 2) message.fail("type {} is not known", kind);
    space.kind = static_cast<Dataspace::Kind>(kind);
    if (space.kind != Dataspace::Kind::kSimple && rank != 0)
      message.fail("{} dimensions where there are none", rank);
  }
  for (int i = 0; i < rank; ++i) space.shape.push_back(message.read_length());
  space.max_shape = space.shape;
  if ((flags & kHasMaxShape) != 0)
    for (std::uint64_t& length : space.max_shape) length = message.read_length();
  space.n_elements =
      space.kind == Dataspace::Kind::kNull ? 0 : count_elements(space.shape, message);
  return space;
}

}  // namespace cellfeed::hdf5
