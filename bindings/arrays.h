// C++ memory as numpy arrays without a copy, and numpy arrays as vectors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace cellfeed::bindings {

using Int64Array = nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig,
                                     nanobind::device::cpu>;

// A capsule that keeps `owner` alive as long as an array uses its memory.
template <typename Owner>
nanobind::capsule keep_alive(Owner owner) {
  auto* held = new Owner(std::move(owner));
  return nanobind::capsule(held, [](void* p) noexcept { delete static_cast<Owner*>(p); });
}

template <typename T, typename Owner>
nanobind::object as_array(const T* data, std::initializer_list<std::size_t> shape, Owner owner) {
  // numpy arrays of nanobind's are writable; a batch belongs to whoever holds it.
  return nanobind::ndarray<nanobind::numpy, T>(const_cast<T*>(data), shape,
                                               keep_alive(std::move(owner)))
      .cast();
}

template <typename T>
nanobind::object vector_as_array(std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return as_array(owner->data(), {owner->size()}, owner);
}

// An array of `dtype` over untyped memory; booleans are one byte each.
template <typename Owner>
nanobind::object untyped_as_array(DType dtype, const void* data,
                                  std::initializer_list<std::size_t> shape, Owner owner) {
  return dispatch_dtype(dtype, [&](auto zero) {
    return as_array(static_cast<const decltype(zero)*>(data), shape, std::move(owner));
  });
}

}  // namespace cellfeed::bindings
