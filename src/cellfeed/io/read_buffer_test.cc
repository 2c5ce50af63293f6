#include "cellfeed/io/read_buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "cellfeed/testing/forked_child.h"

namespace cellfeed::io {
namespace {

bool holds(const ReadBuffer& buffer, std::size_t bytes, int value) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (buffer.data()[i] != static_cast<std::byte>(value)) return false;
  return true;
}

TEST(ReadBuffer, BuffersAreAlignedAndApart) {
  const std::size_t sizes[] = {1, 4032, 4033, 100'000, 3 << 20, 8 << 20, 20 << 20};
  std::vector<ReadBuffer> buffers;
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    buffers.emplace_back(sizes[i]);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers[i].data()) % 4096, 0u);
    EXPECT_GE(buffers[i].capacity_bytes(), sizes[i] + kReadPaddingBytes);
    EXPECT_EQ(buffers[i].capacity_bytes(), ReadBuffer::planned_capacity(sizes[i]));
    std::memset(buffers[i].data(), static_cast<int>(i), buffers[i].capacity_bytes());
  }
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    EXPECT_TRUE(holds(buffers[i], sizes[i], static_cast<int>(i))) << sizes[i];
}

TEST(ReadBuffer, MemoryIsUsedAgain) {
  std::set<std::byte*> seen;
  for (int round = 0; round < 50; ++round) {
    std::vector<ReadBuffer> window;
    for (int i = 0; i < 20; ++i) seen.insert(window.emplace_back(600'000).data());
  }
  EXPECT_LE(seen.size(), 80u);
}

TEST(ReadBuffer, MovingKeepsTheBytes) {
  ReadBuffer first(1000);
  std::memset(first.data(), 7, 1000);
  ReadBuffer second(std::move(first));
  ReadBuffer third(5);
  third = std::move(second);
  EXPECT_TRUE(holds(third, 1000, 7));
}

bool is_mapped(const ReadBuffer& buffer) {
  unsigned char page = 0;
  return ::mincore(buffer.data(), 1, &page) == 0;
}

TEST(ReadBuffer, AForkedChildHasNotGotItAndMakesItsOwn) {
  ReadBuffer inherited(100'000);
  std::memset(inherited.data(), 1, 100'000);
  EXPECT_TRUE(is_mapped(inherited));
  EXPECT_EQ(testing::run_in_child([&] {
              if (is_mapped(inherited)) return false;
              ReadBuffer own(100'000);
              std::memset(own.data(), 2, 100'000);
              inherited = ReadBuffer();  // must not take what the child has mapped since
              return holds(own, 100'000, 2);
            }),
            0);
  EXPECT_TRUE(holds(inherited, 100'000, 1));
}

TEST(ReadBuffer, ThreadsShareSlabsWithoutMeeting) {
  std::vector<int> is_right(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        bool right = true;
        for (std::size_t i = 0; i < 200; ++i) {
          const std::size_t bytes = 1 + i * 4567 % 50'000;
          const ReadBuffer buffer(bytes);
          std::memset(buffer.data(), t, bytes);
          std::this_thread::yield();
          right &= holds(buffer, bytes, t);
        }
        is_right[static_cast<std::size_t>(t)] = right ? 1 : 0;
      });
  }
  for (const int right : is_right) EXPECT_EQ(right, 1);
}

}  // namespace
}  // namespace cellfeed::io
