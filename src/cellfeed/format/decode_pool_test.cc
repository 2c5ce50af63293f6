// Memory for decoding: bounded, and there as long as what was decoded.
#include "cellfeed/format/decode_pool.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>

#include "cellfeed/base/error.h"

namespace cellfeed::format {
namespace {

using ::testing::HasSubstr;

TEST(DecodePool, RefusesWhatExceedsItsBoundAndSaysSo) {
  const DecodePool pool(1000);
  std::uint8_t* data = nullptr;
  ASSERT_TRUE(pool.get()->Allocate(600, &data).ok());
  pool.check(arrow::Status::OK(), "x.parquet");
  for (const std::int64_t more : {std::int64_t{401}, std::numeric_limits<std::int64_t>::max()}) {
    std::uint8_t* other = nullptr;
    const arrow::Status status = pool.get()->Allocate(more, &other);
    EXPECT_TRUE(status.IsOutOfMemory());
    try {
      pool.check(status, "x.parquet");
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
      EXPECT_THAT(error.what(), HasSubstr("x.parquet: takes more than 1000 bytes"));
    }
  }
  // While it is moved, it is there twice.
  EXPECT_TRUE(pool.get()->Reallocate(600, 401, &data).IsOutOfMemory());
  ASSERT_TRUE(pool.get()->Reallocate(600, 400, &data).ok());
  EXPECT_EQ(pool.get()->bytes_allocated(), 400);
  pool.get()->Free(data, 400);
  EXPECT_EQ(pool.get()->bytes_allocated(), 0);
}

TEST(DecodePool, WhatWasDecodedOutlivesIt) {
  std::optional<DecodePool> pool(std::in_place, 1 << 20);
  arrow::StringBuilder builder(pool->get());
  ASSERT_TRUE(builder.Append("a text that is long enough to take memory of its own").ok());
  std::shared_ptr<arrow::Array> array;
  ASSERT_TRUE(builder.Finish(&array).ok());
  pool.reset();
  EXPECT_EQ(static_cast<const arrow::StringArray&>(*array).GetString(0).size(), 52U);
}

}  // namespace
}  // namespace cellfeed::format
