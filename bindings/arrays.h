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

using Int32Array = nanobind::ndarray<const std::int32_t, nanobind::ndim<1>, nanobind::c_contig,
                                     nanobind::device::cpu>;
using Int64Array = nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig,
                                     nanobind::device::cpu>;

// An object that is a numpy array, as the stubs of the module then say.
class NumpyArray : public nanobind::object {
  NB_OBJECT(NumpyArray, nanobind::object, "numpy.ndarray", is_any)

 private:
  static bool is_any(PyObject*) { return true; }
};

// A capsule that keeps `owner` alive as long as an array uses its memory.
template <typename Owner>
nanobind::capsule keep_alive(Owner owner) {
  auto* held = new Owner(std::move(owner));
  return nanobind::capsule(held, [](void* p) noexcept { delete static_cast<Owner*>(p); });
}

template <typename T, typename Owner>
NumpyArray as_array(const T* data, std::initializer_list<std::size_t> shape, Owner owner) {
  // numpy arrays of nanobind's are writable; a batch belongs to whoever holds it.
  nanobind::object array = nanobind::ndarray<nanobind::numpy, T>(const_cast<T*>(data), shape,
                                                                 keep_alive(std::move(owner)))
                               .cast();
  return nanobind::steal<NumpyArray>(array.release());
}

template <typename T>
NumpyArray vector_as_array(std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return as_array(owner->data(), {owner->size()}, owner);
}

// An array of `dtype` over untyped memory; booleans are one byte each.
template <typename Owner>
NumpyArray untyped_as_array(DType dtype, const void* data, std::initializer_list<std::size_t> shape,
                            Owner owner) {
  return dispatch_dtype(dtype, [&](auto zero) {
    return as_array(static_cast<const decltype(zero)*>(data), shape, std::move(owner));
  });
}

}  // namespace cellfeed::bindings
