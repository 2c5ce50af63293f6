// Arrow's statuses as cellfeed errors.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::matrix {

// what: what was tried, as in "cannot WHAT". Throws `kind`, or kIo where memory ran out.
inline void check_arrow(const arrow::Status& status, std::string_view what,
                        ErrorKind kind = ErrorKind::kInternal) {
  if (status.ok()) return;
  throw Error(status.IsOutOfMemory() ? ErrorKind::kIo : kind,
              fmt::format("cannot {}: {}", what, status.ToString()));
}

template <typename T>
T check_arrow(arrow::Result<T> result, std::string_view what,
              ErrorKind kind = ErrorKind::kInternal) {
  check_arrow(result.status(), what, kind);
  return *std::move(result);
}

}  // namespace cellfeed::matrix
