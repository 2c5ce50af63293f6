// Boxes are copied row by row along the last dimension.
#include "cellfeed/hdf5/box.h"

#include <cstring>

namespace cellfeed::hdf5 {
namespace {

// Row-major number of an element.
std::uint64_t element_number(std::span<const std::uint64_t> array_shape,
                             std::span<const std::uint64_t> begin,
                             std::span<const std::uint64_t> at) {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < array_shape.size(); ++d)
    number = number * array_shape[d] + begin[d] + at[d];
  return number;
}

// Calls visit with the coordinates in the box of each row's first element.
template <typename Visit>
void for_each_row(std::span<const std::uint64_t> shape, const Visit& visit) {
  for (const std::uint64_t extent : shape)
    if (extent == 0) return;
  std::vector<std::uint64_t> at(shape.size(), 0);
  while (true) {
    visit(at);
    std::size_t d = shape.size();
    if (d < 2) return;
    for (--d; d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
      if (d == 0) return;
    }
  }
}

std::uint64_t row_elements(std::span<const std::uint64_t> shape) {
  return shape.empty() ? 1 : shape.back();
}

}  // namespace

void copy_box(const BoxEnd<const std::byte>& from, const BoxEnd<std::byte>& to,
              std::span<const std::uint64_t> shape, std::uint64_t element_bytes) {
  const std::uint64_t row_bytes = row_elements(shape) * element_bytes;
  for_each_row(shape, [&](std::span<const std::uint64_t> at) {
    std::memcpy(to.data + element_number(to.shape, to.begin, at) * element_bytes,
                from.data + element_number(from.shape, from.begin, at) * element_bytes, row_bytes);
  });
}

void fill_box(std::span<const std::byte> element, const BoxEnd<std::byte>& to,
              std::span<const std::uint64_t> shape) {
  for_each_row(shape, [&](std::span<const std::uint64_t> at) {
    std::byte* row = to.data + element_number(to.shape, to.begin, at) * element.size();
    for (std::uint64_t i = 0; i < row_elements(shape); ++i)
      std::memcpy(row + i * element.size(), element.data(), element.size());
  });
}

}  // namespace cellfeed::hdf5
