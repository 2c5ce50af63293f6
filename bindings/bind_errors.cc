// Error -> the class of cellfeed.errors that is also the native type.
#include <nanobind/nanobind.h>

#include <string_view>

#include "bindings.h"
#include "cellfeed/base/error.h"

namespace nb = nanobind;

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
nb::object as_text(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void set_python_error(const Error& error) {
  nb::object type = nb::module_::import_("cellfeed.errors").attr(class_of(error.kind()));
  nb::object instance = type(as_text(error.what()));
  if (!error.path().empty()) instance.attr("path") = as_text(error.path());
  PyErr_SetObject(type.ptr(), instance.ptr());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_python_error(error);
    }
  });
}

}  // namespace cellfeed::bindings
