// error_of: what a call says that throws. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "cellfeed/base/error.h"

namespace cellfeed::testing {

// "no error" where nothing is thrown. kind: which the error must be, where that is known.
[[nodiscard]] inline std::string error_of(const std::function<void()>& call,
                                          std::optional<ErrorKind> kind = std::nullopt) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind())) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace cellfeed::testing
