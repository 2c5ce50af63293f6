// Error: the one exception type of cellfeed. Expected outcomes are values; everything else throws
// this. Thread-safe: an Error is immutable once thrown.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cellfeed {

// Each kind is one Python class that also derives from the native type named here.
enum class ErrorKind {
  kInvalidArgument,  // ValueError: the caller's argument is wrong
  kInvalidType,      // TypeError
  kNotFound,         // FileNotFoundError
  kNoSuchKey,        // KeyError: a column, layer or gene that is not there
  kOutOfRange,       // IndexError
  kAlreadyExists,    // FileExistsError
  kCorruptData,      // OSError: bytes that are not what their format promises
  kUnsupported,      // NotImplementedError: valid, but not readable by this version
  kIo,               // OSError: the operating system refused
  kNoSpace,          // OSError: disk full
  kPrecision,        // ValueError: a conversion would lose precision
  kCancelled,        // RuntimeError: stopped by the consumer
  kInternal,         // RuntimeError: a bug in cellfeed
};

std::string_view error_kind_name(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, std::string path = {})
      : std::runtime_error(path.empty() ? message : path + ": " + message),
        kind_(kind),
        path_(std::move(path)) {}

  ErrorKind kind() const { return kind_; }
  // Nothing is known of what the file holds: it could not be read, or nobody waited for it.
  bool was_not_read() const { return kind_ == ErrorKind::kIo || kind_ == ErrorKind::kCancelled; }
  // The file or directory at fault; empty where no file is involved.
  const std::string& path() const { return path_; }

 private:
  ErrorKind kind_;
  std::string path_;
};

// throw_error(kind, path, "static text first, values last: {}", value)
template <typename... Args>
[[noreturn]] void throw_error(ErrorKind kind, std::string path, fmt::format_string<Args...> text,
                              Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...), std::move(path));
}

template <typename... Args>
[[noreturn]] void throw_invalid(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format(text, std::forward<Args>(args)...));
}

// Throws kIo, kNotFound, kAlreadyExists or kNoSpace after errno, naming the operation.
[[noreturn]] void throw_errno(int error_number, std::string path, std::string_view operation);

}  // namespace cellfeed
