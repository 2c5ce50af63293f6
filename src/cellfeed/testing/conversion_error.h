// What a conversion that must fail says. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::testing {

inline std::string error_of(const convert::ConvertOptions& options, ErrorKind kind) {
  try {
    convert_to_shards(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return {};
}

}  // namespace cellfeed::testing
