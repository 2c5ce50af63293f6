// Conformance suite of io::ByteSource. For each implementation write
//   struct MySource { static std::shared_ptr<io::ByteSource> open(const TempDir&, std::span<const
//   std::byte>); };
// that serves exactly those bytes, and INSTANTIATE_TYPED_TEST_SUITE_P(Name, ByteSourceConformance,
// MySource). An open() that throws kUnsupported skips: the machine has no such thing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {

inline std::vector<std::byte> random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Ranges of a content with the buffers to read them into.
class PlannedReads {
 public:
  explicit PlannedReads(std::span<const std::byte> content) : content_(content) {}

  void add(std::int64_t offset, std::int64_t length) {
    buffers_.emplace_back(static_cast<std::size_t>(length), std::byte{0xAA});
    requests_.push_back({offset, buffers_.back()});
  }
  void add_random(int count, std::int64_t max_length, std::uint32_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < count; ++i) {
      const auto offset = static_cast<std::int64_t>(random() % (content_.size() + 1));
      const std::int64_t most = std::min(max_length, std::ssize(content_) - offset);
      add(offset, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1)));
    }
  }
  std::span<const io::ReadRequest> requests() const { return requests_; }

  bool all_equal_content() const {
    return std::ranges::all_of(requests_, [this](const io::ReadRequest& request) {
      const auto wanted =
          content_.subspan(static_cast<std::size_t>(request.offset), request.out.size());
      return std::ranges::equal(wanted, request.out);
    });
  }
  bool all_untouched() const {
    return std::ranges::all_of(buffers_, [](const auto& buffer) {
      return std::ranges::all_of(buffer, [](std::byte b) { return b == std::byte{0xAA}; });
    });
  }

 private:
  std::span<const std::byte> content_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<io::ReadRequest> requests_;
};

template <typename Opener>
class ByteSourceConformance : public ::testing::Test {
 protected:
  // Null, with the test marked as skipped, where this machine cannot open such a source.
  std::shared_ptr<io::ByteSource> open(std::span<const std::byte> content) {
    try {
      return Opener::open(dir_, content);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      skip(error.what());
      return nullptr;
    }
  }

  static void expect_truncated(const io::ByteSource& source, std::int64_t offset,
                               std::int64_t length) {
    std::vector<std::byte> out(static_cast<std::size_t>(length));
    try {
      source.read(offset, out);
      ADD_FAILURE() << "no error at offset " << offset << ", length " << length;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kCorruptData) << text;
      EXPECT_EQ(error.path(), source.path());
      for (const auto& part : {std::string("truncated"), std::to_string(offset),
                               std::to_string(length), std::to_string(source.size())}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
      }
    }
  }

  TempDir dir_;

 private:
  static void skip(const std::string& reason) { GTEST_SKIP() << reason; }
};

TYPED_TEST_SUITE_P(ByteSourceConformance);

TYPED_TEST_P(ByteSourceConformance, KnowsItsPathSizeAndBackend) {
  const auto content = random_bytes(1234, 1);
  const auto source = this->open(content);
  if (!source) return;
  EXPECT_EQ(source->size(), 1234);
  EXPECT_FALSE(source->path().empty());
  EXPECT_FALSE(source->backend_name().empty());
}

TYPED_TEST_P(ByteSourceConformance, ReadsAnyRange) {
  const auto content = random_bytes(9000, 2);
  const auto source = this->open(content);
  if (!source) return;
  const std::int64_t edges[] = {0, 1, 511, 512, 4095, 4096, 4097, 8191, 8192, 8999, 9000};
  for (const std::int64_t begin : edges) {
    for (const std::int64_t end : edges) {
      if (begin > end) continue;
      std::vector<std::byte> out(static_cast<std::size_t>(end - begin));
      source->read(begin, out);
      EXPECT_TRUE(std::equal(out.begin(), out.end(), content.begin() + begin))
          << begin << " to " << end;
    }
  }
}

TYPED_TEST_P(ByteSourceConformance, ReadsOutsideAreTruncatedErrors) {
  const auto content = random_bytes(100, 3);
  const auto source = this->open(content);
  if (!source) return;
  constexpr auto kFar = std::numeric_limits<std::int64_t>::max();
  this->expect_truncated(*source, 100, 1);
  this->expect_truncated(*source, 99, 2);
  this->expect_truncated(*source, 0, 101);
  this->expect_truncated(*source, -1, 1);
  this->expect_truncated(*source, 101, 0);
  this->expect_truncated(*source, kFar, 50);
}

TYPED_TEST_P(ByteSourceConformance, EmptySourceIsLegal) {
  const auto source = this->open({});
  if (!source) return;
  EXPECT_EQ(source->size(), 0);
  EXPECT_TRUE(source->map().empty());
  source->read(0, {});
  source->read_many({});
  this->expect_truncated(*source, 0, 1);
}

TYPED_TEST_P(ByteSourceConformance, ReadManyFillsRepeatedOverlappingUnsortedAndEmptyRequests) {
  const auto content = random_bytes(20000, 4);
  const auto source = this->open(content);
  if (!source) return;
  PlannedReads reads(content);
  reads.add(15000, 5000);
  reads.add(0, 10);
  reads.add(15000, 5000);
  reads.add(20000, 0);
  reads.add(5, 10);
  reads.add(0, 0);
  reads.add(0, 20000);
  reads.add_random(700, 300, 5);  // more than any queue is deep
  source->read_many(reads.requests());
  EXPECT_TRUE(reads.all_equal_content());
}

TYPED_TEST_P(ByteSourceConformance, ReadManyOfLargeRequests) {
  const auto content = random_bytes((2 << 20) + 77, 6);
  const auto source = this->open(content);
  if (!source) return;
  PlannedReads reads(content);
  reads.add(0, std::ssize(content));
  reads.add_random(6, 900 << 10, 7);
  source->read_many(reads.requests());
  EXPECT_TRUE(reads.all_equal_content());
}

TYPED_TEST_P(ByteSourceConformance, ReadManyChecksAllRequestsBeforeReading) {
  const auto content = random_bytes(100, 8);
  const auto source = this->open(content);
  if (!source) return;
  PlannedReads reads(content);
  reads.add(0, 50);
  reads.add(90, 11);
  EXPECT_THROW(source->read_many(reads.requests()), Error);
  EXPECT_TRUE(reads.all_untouched());
}

TYPED_TEST_P(ByteSourceConformance, ReadsBegunTogetherAllArrive) {
  const auto content = random_bytes(300000, 11);
  const auto source = this->open(content);
  if (!source) return;
  std::vector<std::unique_ptr<PlannedReads>> reads;
  std::vector<std::unique_ptr<io::PendingReads>> pending;
  for (std::uint32_t i = 0; i < 40; ++i) {
    reads.push_back(std::make_unique<PlannedReads>(content));
    reads.back()->add_random(static_cast<int>(i * 3 % 25), 3000, i);
    pending.push_back(source->begin_read_many(reads.back()->requests()));
  }
  // Some are waited for, in any order, twice or not at all; those then leave no read behind.
  for (const std::size_t i : {39, 0, 17, 17, 5, 38, 6}) {
    if (pending[i]) pending[i]->wait();
    EXPECT_TRUE(reads[i]->all_equal_content()) << i;
  }
  for (const std::size_t i : {1, 20, 37}) {
    pending[i].reset();
    reads[i].reset();
  }
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (pending[i]) pending[i]->wait();
    EXPECT_TRUE(!reads[i] || reads[i]->all_equal_content()) << i;
  }
}

TYPED_TEST_P(ByteSourceConformance, BeginReadManyChecksAllRequestsBeforeReading) {
  const auto content = random_bytes(100, 8);
  const auto source = this->open(content);
  if (!source) return;
  PlannedReads reads(content);
  reads.add(0, 50);
  reads.add(90, 11);
  EXPECT_THROW(source->begin_read_many(reads.requests()), Error);
  EXPECT_TRUE(reads.all_untouched());
}

TYPED_TEST_P(ByteSourceConformance, ThreadsThatBeginAndWaitShareTheQueue) {
  const auto content = random_bytes(100000, 12);
  const auto source = this->open(content);
  if (!source) return;
  std::vector<int> is_right(4, 0);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < is_right.size(); ++t) {
      threads.emplace_back([&, t] {
        bool right = true;
        for (std::uint32_t round = 0; round < 10; ++round) {
          PlannedReads first(content), second(content), dropped(content);
          first.add_random(50, 700, 10 * t + round);
          second.add_random(200, 300, 10 * t + round + 1000);
          dropped.add_random(100, 300, 10 * t + round + 2000);
          const auto first_pending = source->begin_read_many(first.requests());
          source->begin_read_many(dropped.requests());
          const auto second_pending = source->begin_read_many(second.requests());
          if (second_pending) second_pending->wait();
          if (first_pending) first_pending->wait();
          right &= first.all_equal_content() && second.all_equal_content();
        }
        is_right[t] = right ? 1 : 0;
      });
    }
  }
  for (const int right : is_right) EXPECT_EQ(right, 1);
}

TYPED_TEST_P(ByteSourceConformance, MapIsTheWholeOrNothing) {
  const auto content = random_bytes(5000, 9);
  const auto source = this->open(content);
  if (!source) return;
  const auto mapped = source->map();
  EXPECT_TRUE(mapped.empty() || std::ranges::equal(mapped, content));
}

TYPED_TEST_P(ByteSourceConformance, ServesManyThreadsAtOnce) {
  const auto content = random_bytes(20000, 10);
  const auto source = this->open(content);
  if (!source) return;
  std::vector<int> is_right(4, 0);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < is_right.size(); ++t) {
      threads.emplace_back([&, t] {
        PlannedReads reads(content);
        reads.add_random(150, 200, 100 + t);
        source->read_many(reads.requests().first(100));
        for (const auto& request : reads.requests().subspan(100)) {
          source->read(request.offset, request.out);
        }
        is_right[t] = reads.all_equal_content() ? 1 : 0;
      });
    }
  }
  for (const int right : is_right) EXPECT_EQ(right, 1);
}

REGISTER_TYPED_TEST_SUITE_P(ByteSourceConformance, KnowsItsPathSizeAndBackend, ReadsAnyRange,
                            ReadsOutsideAreTruncatedErrors, EmptySourceIsLegal,
                            ReadManyFillsRepeatedOverlappingUnsortedAndEmptyRequests,
                            ReadManyOfLargeRequests, ReadManyChecksAllRequestsBeforeReading,
                            ReadsBegunTogetherAllArrive,
                            BeginReadManyChecksAllRequestsBeforeReading,
                            ThreadsThatBeginAndWaitShareTheQueue, MapIsTheWholeOrNothing,
                            ServesManyThreadsAtOnce);

}  // namespace cellfeed::testing
