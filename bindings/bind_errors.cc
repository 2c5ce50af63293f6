// Error -> the class of cellfeed.errors that is also the native type.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/cloud/storage_options.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgumentError";
    case ErrorKind::kInvalidType:
      return "InvalidTypeError";
    case ErrorKind::kNotFound:
      return "NotFoundError";
    case ErrorKind::kNoSuchKey:
      return "NoSuchKeyError";
    case ErrorKind::kOutOfRange:
      return "OutOfRangeError";
    case ErrorKind::kAlreadyExists:
      return "AlreadyExistsError";
    case ErrorKind::kCorruptData:
      return "CorruptDataError";
    case ErrorKind::kUnsupported:
      return "UnsupportedError";
    case ErrorKind::kIo:
      return "InputOutputError";
    case ErrorKind::kNoSpace:
      return "NoSpaceError";
    case ErrorKind::kPrecision:
      return "PrecisionError";
    case ErrorKind::kCancelled:
      return "CancelledError";
    case ErrorKind::kInternal:
      return "InternalError";
  }
  return "CellfeedError";
}

// Paths and the bytes of damaged files need not be UTF-8.
nb::str as_text(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void set_python_error(const Error& error) {
  nb::object type = nb::module_::import_("cellfeed.errors").attr(class_of(error.kind()));
  const nb::str text = as_text(mask_credentials(error.what() + cloud::cache_note(error)));
  nb::object instance = call_python([&] { return type(text); });
  if (!error.path().empty()) instance.attr("path") = as_text(mask_credentials(error.path()));
  PyErr_SetObject(type.ptr(), instance.ptr());
}

// Names come from files too, so they need not be Unicode that UTF-8 can hold.
std::string as_bytes(nb::handle text) {
  const auto encoded =
      nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
  if (!encoded.is_valid()) throw nb::python_error();
  return {encoded.c_str(), encoded.size()};
}

std::vector<std::string> as_bytes_of(const nb::list& known) {
  std::vector<std::string> names;
  for (const nb::handle name : known) names.push_back(as_bytes(name));
  return names;
}

nb::str nearest_name_of(const nb::str& name, const nb::list& known) {
  return as_text(nearest_name(as_bytes(name), as_bytes_of(known)));
}

nb::str suggestion_of(const nb::str& name, const nb::list& known) {
  return as_text(suggestion(as_bytes(name), as_bytes_of(known)));
}

}  // namespace

void bind_errors(nb::module_& module) {
  set_interface(Interface::kPython);
  // For messages of the program's verbs that run in Python.
  module.def("speak_as_program", [] { set_interface(Interface::kProgram); });
  module.def(
      "argument_text",
      [](const std::string& name, const std::string& value) { return argument(name, value); },
      "name"_a, "value"_a = "");
  module.def("mask_credentials", &mask_credentials, "text"_a);
  module.def("nearest_name", &nearest_name_of, "name"_a, "known"_a);
  module.def("suggestion", &suggestion_of, "name"_a, "known"_a);
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_python_error(error);
    }
  });
}

}  // namespace cellfeed::bindings
