// Every ByteSource of this layer, and the doubles, against one contract.
#include "cellfeed/io/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/io/local_file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/faulty_byte_source.h"
#include "cellfeed/testing/slow_byte_source.h"

namespace cellfeed::testing {
namespace {

using Content = std::span<const std::byte>;
using Source = std::shared_ptr<io::ByteSource>;

Source open_file(const TempDir& dir, Content content, const io::LocalFileOptions& options) {
  return io::open_local_file(dir.write("content.bin", content), options);
}

Source open_memory(Content content) {
  return io::make_memory_source("memory.bin", {content.begin(), content.end()});
}

struct Memory {
  static Source open(const TempDir&, Content content) { return open_memory(content); }
};
struct Mapped {
  static Source open(const TempDir& dir, Content content) { return open_file(dir, content, {}); }
};
struct MappedRandom {
  static Source open(const TempDir& dir, Content content) {
    return open_file(dir, content, {.random_access = true});
  }
};
struct Pread {
  static Source open(const TempDir& dir, Content content) {
    return open_file(dir, content, {.access = io::FileAccess::kPread, .threads = 3});
  }
};
struct PreadDirect {
  static Source open(const TempDir& dir, Content content) {
    return open_file(dir, content, {.access = io::FileAccess::kPread, .direct = true});
  }
};
struct Uring {
  static Source open(const TempDir& dir, Content content) {
    return open_file(dir, content, {.access = io::FileAccess::kUring, .random_access = true});
  }
};
struct UringShallow {
  static Source open(const TempDir& dir, Content content) {
    return open_file(dir, content, {.access = io::FileAccess::kUring, .queue_depth = 1});
  }
};
struct UringDirect {
  static Source open(const TempDir& dir, Content content) {
    return open_file(dir, content,
                     {.access = io::FileAccess::kUring, .direct = true, .queue_depth = 8});
  }
};
struct Slow {
  static Source open(const TempDir&, Content content) {
    return std::make_shared<SlowByteSource>(
        open_memory(content),
        SlowOptions{.seed = 1, .max_latency = std::chrono::microseconds(5), .max_piece = 100});
  }
};
struct FaultyWithoutFaults {
  static Source open(const TempDir&, Content content) {
    return std::make_shared<FaultyByteSource>(open_memory(content), Faults{});
  }
};

using Sources = ::testing::Types<Memory, Mapped, MappedRandom, Pread, PreadDirect, Uring,
                                 UringShallow, UringDirect, Slow, FaultyWithoutFaults>;
INSTANTIATE_TYPED_TEST_SUITE_P(Io, ByteSourceConformance, Sources);

TEST(FaultyByteSource, FailsFromTheNthReadOn) {
  const auto content = random_bytes(10, 1);
  const FaultyByteSource source(open_memory(content), {.fail_at_read = 2});
  std::vector<std::byte> out(1);
  source.read(0, out);
  source.read(0, out);
  EXPECT_THROW(source.read(0, out), Error);
  EXPECT_THROW(source.read(0, out), Error);
}

TEST(FaultyByteSource, FlipsTruncatesAndFailsWhereTold) {
  const auto content = random_bytes(10, 1);
  const FaultyByteSource source(open_memory(content),
                                {.fail_at_offset = 2, .flip_at_offset = 5, .truncate_to = 8});
  std::vector<std::byte> out(3);
  source.read(4, out);
  EXPECT_EQ(out[0], content[4]);
  EXPECT_EQ(out[1], ~content[5]);
  EXPECT_EQ(source.size(), 8);
  EXPECT_THROW(source.read(6, out), Error);
  EXPECT_THROW(source.read(0, out), Error);
}

TEST(SlowByteSource, IsLateAndReadsInSmallPieces) {
  const auto content = random_bytes(100, 1);
  const auto below = std::make_shared<FaultyByteSource>(open_memory(content), Faults{});
  const SlowByteSource source(below, {.max_latency = std::chrono::microseconds(1), .max_piece = 7});
  std::vector<std::byte> out(100);
  source.read(0, out);
  EXPECT_EQ(below->reads(), 15);
  EXPECT_EQ(source.round_trips(), 1);
}

}  // namespace
}  // namespace cellfeed::testing
