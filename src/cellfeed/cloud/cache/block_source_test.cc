#include "cellfeed/cloud/cache/block_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/counted_byte_source.h"
#include "cellfeed/testing/faulty_byte_source.h"
#include "cellfeed/testing/flipped_bit.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/slow_byte_source.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::cloud {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallBlock = 4096;
constexpr std::int64_t kHeadOfFile = 8192;
constexpr const char* kObjectPath = "s3://b/a.h5ad";
using Remote = std::shared_ptr<const io::ByteSource>;

std::string name_of(int version = 0) {
  return fmt::format("blocks-0123456789abcdef-{:016x}-a.h5ad", version);
}

Remote in_memory(std::span<const std::byte> content) {
  return io::make_memory_source(kObjectPath, {content.begin(), content.end()});
}

std::unique_ptr<io::ByteSource> open_in(const std::string& folder, Remote remote,
                                        const std::string& name = name_of(),
                                        std::int64_t limit = -1) {
  auto file = BlockFile::open_or_make(io::Directory(folder), name, kObjectPath, remote->size(),
                                      kSmallBlock);
  return make_block_source(make_block_cache(std::move(remote), std::move(file), folder, limit), 2);
}

std::vector<std::byte> read_whole(const io::ByteSource& source) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(source.size()));
  source.read(0, bytes);
  return bytes;
}

struct NoBlocks {
  static std::shared_ptr<io::ByteSource> open(const testing::TempDir& dir,
                                              std::span<const std::byte> content) {
    static int n = 0;
    return open_in(dir.path(), in_memory(content), name_of(++n));
  }
};
struct AllBlocks {
  static std::shared_ptr<io::ByteSource> open(const testing::TempDir& dir,
                                              std::span<const std::byte> content) {
    static int n = 0;
    const std::string name = name_of(++n);
    read_whole(*open_in(dir.path(), in_memory(content), name));
    // Reading from there fails.
    return open_in(dir.path(),
                   std::make_shared<testing::FaultyByteSource>(in_memory(content),
                                                               testing::Faults{.fail_at_read = 0}),
                   name);
  }
};
struct EverySecondBlock {
  static std::shared_ptr<io::ByteSource> open(const testing::TempDir& dir,
                                              std::span<const std::byte> content) {
    static int n = 0;
    const std::string name = name_of(++n);
    const auto source = open_in(dir.path(), in_memory(content), name);
    std::byte byte{};
    for (std::int64_t at = 0; at < source->size(); at += 2 * kSmallBlock)
      source->read(at, {&byte, 1});
    return open_in(dir.path(), in_memory(content), name);
  }
};

struct NoRoom {
  static std::shared_ptr<io::ByteSource> open(const testing::TempDir& dir,
                                              std::span<const std::byte> content) {
    static int n = 0;
    return open_in(dir.path(), in_memory(content), name_of(++n), 0);
  }
};

}  // namespace
}  // namespace cellfeed::cloud

namespace cellfeed::testing {
using BlockSources =
    ::testing::Types<cloud::NoBlocks, cloud::AllBlocks, cloud::EverySecondBlock, cloud::NoRoom>;
INSTANTIATE_TYPED_TEST_SUITE_P(Blocks, ByteSourceConformance, BlockSources);
}  // namespace cellfeed::testing

namespace cellfeed::cloud {
namespace {

class BlocksOfAnObject : public ::testing::Test {
 protected:
  void SetUp() override { io::take_cache_warnings(); }

  std::shared_ptr<testing::CountedByteSource> counted() const {
    return std::make_shared<testing::CountedByteSource>(in_memory(bytes_));
  }
  std::unique_ptr<io::ByteSource> open(Remote remote) const { return open_in(dir_.path(), remote); }
  std::unique_ptr<io::ByteSource> open() const { return open(in_memory(bytes_)); }
  void fill() const { EXPECT_TRUE(read_whole(*open()) == bytes_); }
  std::string file() const { return dir_.file(name_of()); }
  std::int64_t begin_of_data() const {
    return static_cast<std::int64_t>(fs::file_size(file())) - std::ssize(bytes_);
  }
  // Where block k is not believed, and all others are.
  void expect_read_again(int n_blocks) const {
    const auto remote = counted();
    EXPECT_TRUE(read_whole(*open(remote)) == bytes_);
    EXPECT_EQ(remote->n_bytes, n_blocks * kSmallBlock);
    const auto later = counted();
    EXPECT_TRUE(read_whole(*open(later)) == bytes_);
    EXPECT_EQ(later->n_bytes, 0);
    EXPECT_EQ(damage_of_blocks(io::Directory(dir_.path()), name_of()), "");
  }
  static void expect_said(std::string_view words) {
    const std::vector<std::string> said = io::take_cache_warnings();
    ASSERT_EQ(said.size(), 1U);
    EXPECT_NE(said[0].find(words), std::string::npos) << said[0];
    EXPECT_NE(said[0].find(kObjectPath), std::string::npos) << said[0];
  }

  std::vector<std::byte> bytes_ = testing::random_bytes(10 * kSmallBlock + 7, 1);
  testing::TempDir dir_;
};

TEST_F(BlocksOfAnObject, ManySmallRangesOfABlockAreOneRead) {
  const auto remote = counted();
  const auto source = open(remote);
  testing::PlannedReads reads(bytes_);
  for (std::int64_t at = kSmallBlock; at < 2 * kSmallBlock; at += 64) reads.add(at, 3);
  source->read_many(reads.requests());
  EXPECT_TRUE(reads.all_equal_content());
  EXPECT_EQ(remote->round_trips, 1);
  EXPECT_EQ(remote->n_bytes, kSmallBlock);
  source->read_many(reads.requests());
  EXPECT_EQ(remote->round_trips, 1);
}

TEST_F(BlocksOfAnObject, NeighboursAreReadTogetherAsFarAsOneReadGoes) {
  bytes_ = testing::random_bytes(3 << 20, 2);  // costs() of memory: 1 MiB at once
  const auto remote = counted();
  EXPECT_TRUE(read_whole(*open(remote)) == bytes_);
  EXPECT_EQ(remote->round_trips, 3);
  EXPECT_EQ(remote->n_bytes, 3 << 20);
}

TEST_F(BlocksOfAnObject, AreThereForTheNextOne) {
  fill();
  expect_read_again(0);
  EXPECT_TRUE(io::take_cache_warnings().empty());
}

TEST_F(BlocksOfAnObject, OfAnySizeAreWhole) {
  for (const std::int64_t size : {std::int64_t{1}, kSmallBlock - 1, kSmallBlock, kSmallBlock + 1,
                                  2 * kSmallBlock, 3 * kSmallBlock - 1}) {
    bytes_ = testing::random_bytes(static_cast<std::size_t>(size), 3);
    const testing::TempDir dir;
    EXPECT_TRUE(read_whole(*open_in(dir.path(), in_memory(bytes_))) == bytes_);
    const auto later = counted();
    EXPECT_TRUE(read_whole(*open_in(dir.path(), later)) == bytes_);
    EXPECT_EQ(later->n_bytes, 0) << size;
  }
}

TEST_F(BlocksOfAnObject, ThatAreReadByManyThreadsAtOnceAreReadOnce) {
  const auto slow = std::make_shared<testing::SlowByteSource>(
      in_memory(bytes_), testing::SlowOptions{.max_latency = std::chrono::milliseconds(100),
                                              .max_piece = kSmallBlock});
  const auto source = open(slow);
  std::vector<int> is_right(8, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < is_right.size(); ++t)
      threads.emplace_back([&, t] {
        std::vector<std::byte> out(10);
        const auto at = static_cast<std::int64_t>(10 * t);
        source->read(at, out);
        is_right[t] = std::equal(out.begin(), out.end(), bytes_.begin() + at) ? 1 : 0;
      });
  }
  for (const int right : is_right) EXPECT_EQ(right, 1);
  EXPECT_EQ(slow->round_trips(), 1);
}

TEST_F(BlocksOfAnObject, WithAFlippedBitAreReadAgainAndSaid) {
  fill();
  testing::flip_bit(file(), begin_of_data() + 3 * kSmallBlock + 17, 4);
  EXPECT_NE(damage_of_blocks(io::Directory(dir_.path()), name_of()).find("block 3"),
            std::string::npos);
  expect_read_again(1);
  expect_said("damaged");
}

TEST_F(BlocksOfAnObject, WhoseBytesNeverReachedTheDiskAreReadAgain) {
  fill();
  const std::vector<std::byte> zeros(kSmallBlock);
  std::fstream out(file(), std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(begin_of_data() + 5 * kSmallBlock);
  out.write(reinterpret_cast<const char*>(zeros.data()), kSmallBlock);
  out.close();
  expect_read_again(1);
  expect_said("damaged");
}

TEST_F(BlocksOfAnObject, WithHalfAnEntryAreNotThere) {
  fill();
  for (const std::int64_t half : {0, 8}) {
    std::fstream out(file(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(kHeadOfFile + 16 * 4 + half);
    out.write("\0\0\0\0\0\0\0", 8);
    out.close();
    expect_read_again(1);
  }
  EXPECT_TRUE(io::take_cache_warnings().empty());
}

TEST_F(BlocksOfAnObject, AreMadeAnewWhereTheHeadIsDamaged) {
  for (const std::int64_t at : {0, 8, 16, 24, 32, 40, 48, 56, 5000}) {
    fill();
    testing::flip_bit(file(), at, 1);
    EXPECT_NE(damage_of_blocks(io::Directory(dir_.path()), name_of()), "") << at;
    const auto remote = counted();
    EXPECT_TRUE(read_whole(*open(remote)) == bytes_);
    EXPECT_EQ(remote->n_bytes, std::ssize(bytes_)) << at;
    expect_said("made anew");
  }
}

TEST_F(BlocksOfAnObject, OfAnotherAreNotBelieved) {
  fill();
  fs::copy_file(file(), dir_.file(name_of(7)));
  bytes_ = testing::random_bytes(bytes_.size(), 4);
  EXPECT_TRUE(read_whole(*open_in(dir_.path(), in_memory(bytes_), name_of(7))) == bytes_);
  expect_said("made anew");
}

TEST_F(BlocksOfAnObject, AreRightWhereTheirFileIsCut) {
  fill();
  fs::resize_file(file(), fs::file_size(file()) - kSmallBlock);
  EXPECT_TRUE(read_whole(*open()) == bytes_);
  expect_said("made anew");
  const auto source = open();
  EXPECT_TRUE(read_whole(*source) == bytes_);
  fs::resize_file(file(), fs::file_size(file()) - 3 * kSmallBlock);
  EXPECT_TRUE(read_whole(*source) == bytes_);
  EXPECT_TRUE(read_whole(*source) == bytes_);
  EXPECT_EQ(io::take_cache_warnings().size(), 3U);  // not read, damaged, and none kept
}

TEST_F(BlocksOfAnObject, AnErrorIsThrownAndTheNextReadTriesAgain) {
  const auto remote = std::make_shared<testing::FaultyByteSource>(
      in_memory(bytes_), testing::Faults{.fail_at_read = 0, .n_failing = 1});
  const auto source = open(remote);
  std::vector<std::byte> out(100);
  const io::ReadRequest request{50, out};
  const auto pending = source->begin_read_many({&request, 1});
  ASSERT_TRUE(pending);
  EXPECT_THROW(pending->wait(), Error);
  EXPECT_THROW(pending->wait(), Error);
  source->read(50, out);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes_.begin() + 50));
}

TEST_F(BlocksOfAnObject, TwoWritersFillOneFile) {
  const auto first = counted(), second = counted();
  {
    const auto a = open(first), b = open(second);
    std::byte byte{};
    for (std::int64_t at = 0; at < std::ssize(bytes_); at += kSmallBlock)
      (at / kSmallBlock % 2 == 0 ? *a : *b).read(at, {&byte, 1});
  }
  EXPECT_EQ(first->n_bytes + second->n_bytes, std::ssize(bytes_));
  expect_read_again(0);
}

TEST_F(BlocksOfAnObject, AreAskedForOnceWhereAnObjectIsOpenedTwice) {
  const auto first = counted(), second = counted();
  const auto open_shared = [this](Remote remote) {
    auto file = BlockFile::open_or_make(io::Directory(dir_.path()), name_of(), kObjectPath,
                                        remote->size(), kSmallBlock);
    return make_block_source(
        make_block_cache(std::move(remote), std::move(file), dir_.path(), -1, true), 2);
  };
  const auto a = open_shared(first);
  EXPECT_TRUE(read_whole(*a) == bytes_);
  const auto b = open_shared(second);
  EXPECT_TRUE(read_whole(*b) == bytes_);
  EXPECT_EQ(first->n_bytes, std::ssize(bytes_));
  EXPECT_EQ(second->n_bytes, 0);
  fs::remove(file());  // the next one has a file of its own
  EXPECT_TRUE(read_whole(*open_shared(second)) == bytes_);
  EXPECT_EQ(second->n_bytes, std::ssize(bytes_));
}

TEST_F(BlocksOfAnObject, OfProcessesThatAreKilledAreRight) {
  bytes_ = testing::random_bytes(200 * kSmallBlock, 5);
  for (int i = 0; i < 8; ++i) {
    testing::exit_code_in_child([&] {
      const auto source = open();
      std::jthread killer([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
        ::kill(::getpid(), SIGKILL);
      });
      std::byte byte{};
      for (std::int64_t block = i; block < 200; block += 1 + i % 3) {
        source->read(block * kSmallBlock, {&byte, 1});
        publish_blocks();
      }
      return 0;
    });
    EXPECT_TRUE(read_whole(*open()) == bytes_);
    std::byte byte{};
    open()->read(kSmallBlock, {&byte, 1});
    EXPECT_EQ(damage_of_blocks(io::Directory(dir_.path()), name_of()), "");
    EXPECT_TRUE(io::take_cache_warnings().empty());
    fs::remove(file());
  }
}

TEST(Fork, AChildReadsBlocksAndFillsThem) {
  const testing::TempDir dir;
  const std::vector<std::byte> bytes = testing::random_bytes(10 * kSmallBlock, 1);
  const auto source = open_in(dir.path(), in_memory(bytes));
  std::byte byte{};
  source->read(0, {&byte, 1});
  EXPECT_EQ(testing::run_in_child([&] {
              const bool is_right = read_whole(*source) == bytes;
              publish_blocks();
              return is_right;
            }),
            0);
  const auto remote = std::make_shared<testing::CountedByteSource>(in_memory(bytes));
  EXPECT_TRUE(read_whole(*open_in(dir.path(), remote)) == bytes);
  EXPECT_EQ(remote->n_bytes, 0);
}

TEST_F(BlocksOfAnObject, AFileThatWasRemovedIsReadOnAndNotFilled) {
  const auto source = open();
  std::byte byte{};
  source->read(0, {&byte, 1});
  fs::remove(file());
  publish_blocks();
  EXPECT_TRUE(io::take_cache_warnings().empty());
  EXPECT_TRUE(read_whole(*source) == bytes_);
  expect_said("removed meanwhile");
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(BlocksOfAnObject, HoldNoMoreThanTheLimit) {
  const std::int64_t limit = kHeadOfFile + kSmallBlock + 4 * kSmallBlock;
  const auto remote = counted();
  const auto source = open_in(dir_.path(), remote, name_of(), limit);
  std::byte byte{};
  for (int round = 0; round < 2; ++round)
    for (std::int64_t at = 0; at < std::ssize(bytes_); at += kSmallBlock) {
      source->read(at, {&byte, 1});
      EXPECT_EQ(byte, bytes_[static_cast<std::size_t>(at)]);
    }
  // Of the second round, what is not kept is asked for as it is: a byte each.
  EXPECT_LT(remote->n_bytes, 7 * kSmallBlock);
  EXPECT_GE(remote->n_bytes, 5 * kSmallBlock);
  expect_said("cache_bytes");
  publish_blocks();  // a page of the table comes on top
  EXPECT_LE(kept_copies(io::Directory(dir_.path())).at(0).bytes, limit + kSmallBlock);
}

TEST_F(BlocksOfAnObject, ThatNobodyReadsMakeRoomForOthers) {
  fill();
  const auto in_use = open_in(dir_.path(), in_memory(bytes_), name_of(1));
  EXPECT_TRUE(read_whole(*in_use) == bytes_);
  const std::int64_t size = kept_copies(io::Directory(dir_.path())).at(0).bytes;
  const auto third = open_in(dir_.path(), in_memory(bytes_), name_of(2), 2 * size + kSmallBlock);
  EXPECT_TRUE(read_whole(*third) == bytes_);
  EXPECT_TRUE(io::take_cache_warnings().empty());
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_TRUE(fs::exists(dir_.file(name_of(1))));
  const auto fourth = open_in(dir_.path(), in_memory(bytes_), name_of(3), 2 * size + kSmallBlock);
  EXPECT_TRUE(read_whole(*fourth) == bytes_);
  expect_said("cache_bytes");
  EXPECT_TRUE(fs::exists(dir_.file(name_of(2))));
}

TEST_F(BlocksOfAnObject, NamesOfOthersAreNoneOfOurs) {
  EXPECT_TRUE(is_block_file_name(name_of()));
  for (const char* name :
       {"blocks-", "blocks-0123456789abcdef-a", "0123456789abcdef-0123456789abcdef-a.h5ad",
        "blocks-0123456789abcdeX-0123456789abcdef-a", "blocks-0123456789abcdef-0123456789abcdef"})
    EXPECT_FALSE(is_block_file_name(name)) << name;
  EXPECT_FALSE(is_copy_name(name_of()));
  dir_.write("blocks-0123456789abcdef-0123456789abcdef-mine", "mine");
  const auto kept = kept_copies(io::Directory(dir_.path()));
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(kept[0].of_object.empty());  // so that it is never removed
}

}  // namespace
}  // namespace cellfeed::cloud
