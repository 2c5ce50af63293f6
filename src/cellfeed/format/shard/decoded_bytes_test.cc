// Bounds of what tables of shards take: those of readers beside those of writers.
#include "cellfeed/format/shard/decoded_bytes.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/obs/obs_file_writer.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

using ::testing::HasSubstr;

TEST(DecodedBytes, BoundsOfAbsurdSizesDoNotOverflow) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(max_decoded_bytes(most / 2, most / 2, most / 2), most);
  EXPECT_GT(max_decoded_bytes(1000, 100, 10), max_written_bytes(1000, 100, 10));
}

TEST(ObsFileWriter, RefusesTextsThatNoReaderWouldTake) {
  const testing::TempDir dir;
  const auto schema = arrow::schema({arrow::field("_index", arrow::utf8(), false)});
  ObsFileWriter writer(io::FileTarget(io::Directory(dir.path()), "shard_000000"), schema);
  arrow::StringBuilder builder;
  const std::string text(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(builder.Append(text).ok());
  const std::shared_ptr<arrow::Array> names = builder.Finish().ValueOrDie();
  writer.append(arrow::Table::Make(schema, {names}));
  ShardEntry entry;
  try {
    writer.finish(entry);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("ask for smaller shards"));
    EXPECT_THAT(error.what(), HasSubstr("shard_000000.parquet"));
  }
}

}  // namespace
}  // namespace cellfeed::format::shard
