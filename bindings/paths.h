// Paths of Python as the bytes that the file system knows, whatever their encoding, and back.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

namespace cellfeed::bindings {

struct FilePath {
  std::string bytes;
};

inline std::vector<std::string> path_bytes(std::vector<FilePath> paths) {
  std::vector<std::string> bytes;
  bytes.reserve(paths.size());
  for (FilePath& path : paths) bytes.push_back(std::move(path.bytes));
  return bytes;
}

inline nanobind::object as_path(const std::string& path) {
  return nanobind::steal(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

}  // namespace cellfeed::bindings

namespace nanobind::detail {

template <>
struct type_caster<cellfeed::bindings::FilePath> {
  NB_TYPE_CASTER(cellfeed::bindings::FilePath, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    PyObject* encoded = nullptr;
    if (!PyUnicode_Check(source.ptr()) || PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
      PyErr_Clear();
      return false;
    }
    const auto bytes = steal<nanobind::bytes>(encoded);
    value.bytes.assign(bytes.c_str(), bytes.size());
    return true;
  }
  static handle from_cpp(const cellfeed::bindings::FilePath& path, rv_policy,
                         cleanup_list*) noexcept {
    return cellfeed::bindings::as_path(path.bytes).release();
  }
};

}  // namespace nanobind::detail
