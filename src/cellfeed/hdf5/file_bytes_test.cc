// FileBytes over sources with and without a map: the same bytes, few round trips, bounded memory.
#include "cellfeed/hdf5/file_bytes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/counted_byte_source.h"

namespace cellfeed::hdf5 {
namespace {

using cellfeed::testing::CountedByteSource;

std::vector<std::byte> numbered(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  return bytes;
}

std::shared_ptr<CountedByteSource> counted(std::vector<std::byte> bytes) {
  return std::make_shared<CountedByteSource>(
      io::make_memory_source("counted.h5", std::move(bytes)));
}

std::vector<std::byte> copy_of(const Bytes& bytes) {
  return {bytes.view().begin(), bytes.view().end()};
}

std::vector<std::byte> slice(const std::vector<std::byte>& all, std::size_t begin, std::size_t n) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(begin + n)};
}

TEST(FileBytes, ReadsTheSameThroughPagesAndThroughAMap) {
  const auto all = numbered(1000);
  const FileBytes mapped(io::make_memory_source("m", all));
  const FileBytes paged(counted(all), {.page_bytes = 64, .kept_bytes = 640});
  for (std::size_t begin = 0; begin <= 1000; begin += 13)
    for (const std::size_t n : {0, 1, 63, 64, 65, 200, 400, 900}) {
      if (begin + n > 1000) continue;
      EXPECT_EQ(copy_of(mapped.read(begin, n)), slice(all, begin, n));
      EXPECT_EQ(copy_of(paged.read(begin, n)), slice(all, begin, n)) << begin << " " << n;
    }
}

TEST(FileBytes, AddressesCountFromTheBaseAddress) {
  const auto all = numbered(1000);
  FileBytes file(counted(all));
  file.set_superblock(512, 8, 8);
  EXPECT_EQ(copy_of(file.read(0, 10)), slice(all, 512, 10));
  EXPECT_TRUE(file.holds(488, 0));
  EXPECT_TRUE(file.holds(480, 8));
  EXPECT_FALSE(file.holds(480, 9));
  EXPECT_FALSE(file.holds(kUndefinedAddress, 0));
  EXPECT_FALSE(file.holds(8, ~std::uint64_t{0}));
}

TEST(FileBytes, WhatLiesOutsideIsAnErrorBeforeAnythingIsAllocated) {
  const FileBytes file(counted(numbered(100)));
  for (const std::uint64_t n : {std::uint64_t{101}, std::uint64_t{1} << 62, ~std::uint64_t{0}})
    try {
      file.read(0, n);
      ADD_FAILURE() << n;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
      EXPECT_EQ(error.path(), "counted.h5");
    }
}

TEST(FileBytes, FetchingManyRangesIsOneRoundTripAndReadingThemIsNone) {
  const auto source = counted(numbered(100'000));
  const FileBytes file(source, {.page_bytes = 64, .kept_bytes = 64'000});
  std::vector<AddressRange> ranges;
  for (Address at = 0; at < 100'000; at += 1000) ranges.push_back({at, 100});
  ranges.push_back({99'990, 1000});                // reaches past the end
  ranges.push_back({kUndefinedAddress, 10});       // nowhere
  ranges.push_back({1 << 30, ~std::uint64_t{0}});  // outside
  file.fetch(ranges);
  EXPECT_EQ(source->round_trips, 1);
  for (Address at = 0; at < 100'000; at += 1000) file.read(at, 100);
  file.read(99'990, 10);
  file.fetch(ranges);
  EXPECT_EQ(source->round_trips, 1);
}

TEST(FileBytes, KeepsNoMorePagesThanAllowed) {
  const auto source = counted(numbered(64'000));
  const FileBytes file(source, {.page_bytes = 64, .kept_bytes = 640});
  for (int page = 0; page < 20; ++page) file.read(static_cast<Address>(page) * 64, 8);
  EXPECT_EQ(source->round_trips, 20);
  file.read(19 * 64, 8);
  file.read(10 * 64, 8);
  EXPECT_EQ(source->round_trips, 20) << "the ten pages used last are kept";
  file.read(0, 8);
  EXPECT_EQ(source->round_trips, 21) << "older ones are not";
  file.fetch(std::vector<AddressRange>{{0, ~std::uint64_t{0}}});
  EXPECT_LE(source->n_bytes, 21 * 64 + 5 * 64) << "a hint does not read the whole file";
}

TEST(FileBytes, ThreadsMayReadAtOnce) {
  const auto all = numbered(100'000);
  const FileBytes file(counted(all), {.page_bytes = 64, .kept_bytes = 640});
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 2000; ++i) {
        const std::size_t begin = (i * 7919 + t * 104'729) % 99'000;
        if (copy_of(file.read(begin, 150)) != slice(all, begin, 150)) ++wrong;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace cellfeed::hdf5
