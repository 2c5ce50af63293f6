#include "cellfeed/io/page_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kPage = 1 << 10;

std::vector<std::byte> some_bytes(std::int64_t n) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  return bytes;
}

// As a server's: without a map, and each read is one request.
class DearSource final : public ByteSource {
 public:
  explicit DearSource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return std::ssize(bytes_); }
  std::string_view backend_name() const override { return "dear"; }
  ReadCosts costs() const override {
    return {.gap_bytes = 2 * kPage, .max_read_bytes = 8 * kPage, .page_bytes = kPage};
  }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, std::ssize(out));
    requests.push_back({offset, std::ssize(out)});
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
  }
  void read_many(std::span<const ReadRequest> all) const override {
    for (const ReadRequest& request : all) read(request.offset, request.out);
  }

  mutable std::vector<ByteRange> requests;

 private:
  const std::vector<std::byte> bytes_;
  const std::string path_ = "dear";
};

struct Cached {
  std::vector<std::byte> bytes = some_bytes(100 * kPage + 17);
  std::shared_ptr<const DearSource> source = std::make_shared<DearSource>(bytes);
  PageCache pages{source};

  void expect(ByteRange range) const {
    const Bytes read = pages.read(range);
    ASSERT_EQ(std::ssize(read.view()), range.length);
    EXPECT_TRUE(std::equal(read.view().begin(), read.view().end(), bytes.begin() + range.offset));
  }
};

TEST(PageCache, PagesThatFollowOneAnotherAreOneRequest) {
  const Cached cached;
  const ByteRange ranges[] = {{0, 10}, {3 * kPage, 4 * kPage}, {50 * kPage, 20 * kPage}};
  cached.pages.fetch(ranges);
  // The gap of two pages is read too; no request is of more than eight.
  ASSERT_EQ(cached.source->requests.size(), 4U);
  EXPECT_EQ(cached.source->requests[0].length, 7 * kPage);
  EXPECT_EQ(cached.source->requests[1].length, 8 * kPage);
  EXPECT_EQ(cached.source->requests[3].length, 4 * kPage);
  for (const ByteRange& range : ranges) cached.expect(range);
  EXPECT_EQ(cached.source->requests.size(), 4U);
}

TEST(PageCache, TheLastPageEndsWithTheSource) {
  const Cached cached;
  cached.expect({98 * kPage + 5, 2 * kPage + 12});
  ASSERT_EQ(cached.source->requests.size(), 1U);
  EXPECT_EQ(cached.source->requests[0].length, 2 * kPage + 17);
}

TEST(PageCache, WhatIsReadOnceComesInFewRequests) {
  const Cached cached;
  cached.expect({10 * kPage, kPage});
  std::vector<ByteRange> ranges;
  for (std::int64_t i = 0; i < 12; ++i) ranges.push_back({20 * kPage + i * 300, 300});
  ranges.push_back({10 * kPage + 3, 5});
  ranges.push_back({4, 0});
  const std::vector<Bytes> read = cached.pages.read_many(ranges);
  EXPECT_EQ(cached.source->requests.size(), 2U);
  ASSERT_EQ(read.size(), ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i)
    EXPECT_TRUE(std::equal(read[i].view().begin(), read[i].view().end(),
                           cached.bytes.begin() + ranges[i].offset,
                           cached.bytes.begin() + ranges[i].offset + ranges[i].length));
}

}  // namespace
}  // namespace cellfeed::io
