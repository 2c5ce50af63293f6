// Arrow's statuses as cellfeed errors.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {

inline void check_arrow(const arrow::Status& status, std::string_view what) {
  if (status.ok()) return;
  throw Error(status.IsOutOfMemory() ? ErrorKind::kIo : ErrorKind::kInternal,
              fmt::format("cannot {}: {}", what, status.ToString()));
}

template <typename T>
T check_arrow(arrow::Result<T> result, std::string_view what) {
  check_arrow(result.status(), what);
  return *std::move(result);
}

}  // namespace cellfeed::convert
