#include "cellfeed/base/error.h"

#include <cerrno>
#include <cstring>

namespace cellfeed {

std::string_view error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "invalid argument";
    case ErrorKind::kInvalidType:
      return "invalid type";
    case ErrorKind::kNotFound:
      return "not found";
    case ErrorKind::kNoSuchKey:
      return "no such key";
    case ErrorKind::kOutOfRange:
      return "out of range";
    case ErrorKind::kAlreadyExists:
      return "already exists";
    case ErrorKind::kCorruptData:
      return "corrupt data";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kIo:
      return "input/output";
    case ErrorKind::kNoSpace:
      return "no space";
    case ErrorKind::kPrecision:
      return "precision";
    case ErrorKind::kCancelled:
      return "cancelled";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

void throw_errno(int error_number, std::string path, std::string_view operation) {
  ErrorKind kind = ErrorKind::kIo;
  std::string_view remedy;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      kind = ErrorKind::kNotFound;
      break;
    case EEXIST:
      kind = ErrorKind::kAlreadyExists;
      break;
    case ENOSPC:
    case EDQUOT:
      kind = ErrorKind::kNoSpace;
      remedy = "; free some space or choose another target, then run again";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      remedy = "; check the permissions of the path";
      break;
    case ELOOP:
      remedy = "; it is a link where none is followed, or links lead round";
      break;
    case EMFILE:
      remedy = "; raise the limit of open files (ulimit -n)";
      break;
    default:
      break;
  }
  throw Error(kind, fmt::format("cannot {}: {}{}", operation, std::strerror(error_number), remedy),
              std::move(path));
}

}  // namespace cellfeed
