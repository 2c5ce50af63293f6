// Which values the kernels of rows move. Pure.
#pragma once

#include <fmt/format.h>

#include <cstddef>

#include "cellfeed/base/error.h"

namespace cellfeed::transform {

// Throws kInternal for others.
inline void require_4_or_8(std::size_t value_bytes) {
  if (value_bytes != 4 && value_bytes != 8)
    throw Error(ErrorKind::kInternal,
                fmt::format("values of a row have 4 or 8 bytes, not: {}", value_bytes));
}

}  // namespace cellfeed::transform
