// Error -> the class of cellfeed.errors that is also the native type.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "cellfeed/base/error.h"

namespace nb = nanobind;

namespace cellfeed::bindings {
namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument: return "InvalidArgumentError";
    case ErrorKind::kInvalidType: return "InvalidTypeError";
    case ErrorKind::kNotFound: return "NotFoundError";
    case ErrorKind::kNoSuchKey: return "NoSuchKeyError";
    case ErrorKind::kOutOfRange: return "OutOfRangeError";
    case ErrorKind::kAlreadyExists: return "AlreadyExistsError";
    case ErrorKind::kCorruptData: return "CorruptDataError";
    case ErrorKind::kUnsupported: return "UnsupportedError";
    case ErrorKind::kIo: return "InputOutputError";
    case ErrorKind::kNoSpace: return "NoSpaceError";
    case ErrorKind::kPrecision: return "PrecisionError";
    case ErrorKind::kCancelled: return "CancelledError";
    case ErrorKind::kInternal: return "InternalError";
  }
  return "CellfeedError";
}

void set_python_error(const Error& error) {
  nb::object type = nb::module_::import_("cellfeed.errors").attr(class_of(error.kind()));
  nb::object instance = type(error.what());
  if (!error.path().empty()) instance.attr("path") = error.path();
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
