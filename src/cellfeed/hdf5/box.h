// Box: a part of an N-dimensional array, and copying one between arrays in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cellfeed::hdf5 {

// Elements [begin[d], begin[d] + shape[d]) along each dimension.
struct Box {
  std::vector<std::uint64_t> begin;
  std::vector<std::uint64_t> shape;
};

// An array, and where in it the copied box begins.
template <typename Byte>
struct BoxEnd {
  Byte* data = nullptr;
  std::span<const std::uint64_t> shape;
  std::span<const std::uint64_t> begin;
};

// Copies a box of this shape. REQUIRES: it lies inside both arrays, which do not overlap.
void copy_box(const BoxEnd<const std::byte>& from, const BoxEnd<std::byte>& to,
              std::span<const std::uint64_t> shape, std::uint64_t element_bytes);
// Writes the element to every place of a box.
void fill_box(std::span<const std::byte> element, const BoxEnd<std::byte>& to,
              std::span<const std::uint64_t> shape);

}  // namespace cellfeed::hdf5
