// Shuffled conversions: every cell once, where the documented order puts it, and the same bytes for
// any number of threads, budget, compression of the inputs, or interruption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "cellfeed/convert/export.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/convert/shuffle/bucket_store.h"
#include "cellfeed/convert/shuffle/cell_order.h"
#include "cellfeed/testing/chi_square.h"
#include "cellfeed/testing/conversion_error.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/killed_conversion.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::column_texts;
using testing::directory_bytes;
using testing::error_of;
using ::testing::HasSubstr;
using testing::read_back;
using testing::ReadBack;
using testing::SmallAtlas;
using testing::TempDir;

class Shuffle : public ::testing::Test {
 protected:
  Shuffle() {
    inputs_ = {SmallAtlas({.n_cells = 1700, .n_genes = 120}).write(dir_.file("a.h5ad")),
               SmallAtlas({.n_cells = 900,
                           .n_genes = 140,
                           .seed = 2,
                           .cell_types = {"monocyte", "B cell", "platelet"}})
                   .write(dir_.file("b.h5ad"))};
  }

  ConvertOptions options(const std::string& name,
                         ExistingTarget existing = ExistingTarget::kRefuse) const {
    ConvertOptions options;
    options.input = testing::cells_of(inputs_, {.join = "outer"});
    options.output_dir = dir_.file(name);
    options.shuffle = true;
    options.seed = 5;
    options.shard_size = 640;
    options.threads = 2;
    options.existing = existing;
    return options;
  }

  std::map<std::string, std::vector<std::byte>> bytes_of(const ConvertOptions& options) const {
    convert_to_shards(options);
    return directory_bytes(options.output_dir);
  }

  TempDir dir_;
  std::vector<std::string> inputs_;
};

TEST_F(Shuffle, EveryCellStandsWhereTheOrderSaysWithItsObsAndItsOrigin) {
  ConvertOptions plain = options("plain");
  plain.shuffle = false;
  convert_to_shards(plain);
  const ReadBack before = read_back(dir_.file("plain"));
  for (const auto gene_order :
       {format::shard::GeneOrder::kSource, format::shard::GeneOrder::kMean}) {
    ConvertOptions shuffled = options("out", ExistingTarget::kOverwrite);
    shuffled.gene_order = gene_order;
    const ConvertResult result = convert_to_shards(shuffled);
    EXPECT_EQ(result.n_cells, 2600);
    EXPECT_EQ(result.n_shards, 5);
    const ReadBack after = read_back(dir_.file("out"));
    const CellOrder order(5, 2600);
    ASSERT_EQ(after.rows.size(), 2600);
    std::vector<bool> seen(2600);
    for (std::int64_t p = 0; p < 2600; ++p) {
      const std::int64_t cell = order.cell_at(p);
      EXPECT_FALSE(seen[cell]);
      seen[cell] = true;
      ASSERT_EQ(after.rows[p], before.rows[cell]) << p;
      ASSERT_EQ(order.position_of(cell), p);
    }
    for (const std::string& name : before.obs->ColumnNames()) {
      const auto texts = column_texts(*after.obs, name);
      const auto expected = column_texts(*before.obs, name);
      for (std::int64_t p = 0; p < 2600; ++p)
        ASSERT_EQ(texts[p], expected[order.cell_at(p)]) << name << " " << p;
    }
    EXPECT_TRUE(after.obs->schema()->Equals(before.obs->schema()))
        << after.obs->schema()->ToString();
  }
}

TEST_F(Shuffle, TheBytesDependOnInputsAndSeedAlone) {
  const auto expected = bytes_of(options("two_threads"));
  ConvertOptions one = options("one_thread");
  one.threads = 1;
  EXPECT_EQ(bytes_of(one), expected);
  ConvertOptions small = options("small_budget");
  small.memory_budget = 32'000'000;
  EXPECT_EQ(bytes_of(small), expected);
  ConvertOptions other = options("other_seed");
  other.seed = 6;
  EXPECT_NE(bytes_of(other).at("shard_000000.cells"), expected.at("shard_000000.cells"));
}

TEST_F(Shuffle, CompressedInputsGiveTheSameCells) {
  const auto expected = bytes_of(options("plain"));
  ConvertOptions compressed = options("gzip");
  std::vector<std::string> copies;
  for (const std::string& input : inputs_) {
    ExportOptions copy;
    copy.input = testing::cells_of({input});
    copy.output = input + ".gz.h5ad";
    copy.compression = format::h5ad::Compression::kGzip;
    export_h5ad(copy);
    copies.push_back(copy.output);
  }
  compressed.input = testing::cells_of(copies, {.join = "outer"});
  const auto actual = bytes_of(compressed);
  for (const auto& [name, bytes] : expected) {
    if (!name.ends_with(".cells")) continue;
    EXPECT_EQ(actual.at(name), bytes) << name;
  }
}

// Shards of one cell, and a shard larger than all cells: buckets hold many shards, or a part of
// one.
TEST_F(Shuffle, ShardsOfAnySizeHoldTheSameCells) {
  convert_to_shards(options("out"));
  const ReadBack expected = read_back(dir_.file("out"));
  for (const std::int64_t size : {97, 100000}) {
    ConvertOptions other = options("size", ExistingTarget::kOverwrite);
    other.shard_size = size;
    convert_to_shards(other);
    const ReadBack actual = read_back(dir_.file("size"));
    EXPECT_EQ(actual.rows, expected.rows);
    for (const std::string& name : expected.obs->ColumnNames())
      EXPECT_EQ(column_texts(*actual.obs, name), column_texts(*expected.obs, name)) << name;
  }
}

// Dense rows are long, so that few cells do not fit in the memory and go through the temporary
// file.
class DenseShuffle : public Shuffle {
 protected:
  DenseShuffle() {
    inputs_ = {SmallAtlas({.n_cells = 3000, .n_genes = 1500}).write(dir_.file("wide.h5ad"))};
  }
  ConvertOptions dense(const std::string& name, std::int64_t memory_budget,
                       ExistingTarget existing = ExistingTarget::kRefuse) const {
    ConvertOptions options = this->options(name, existing);
    options.layout = format::shard::Layout::kDense;
    options.memory_budget = memory_budget;
    return options;
  }
};

TEST_F(DenseShuffle, WhatDoesNotFitInMemoryGoesThroughAFileThatIsGoneAfterwards) {
  const auto expected = bytes_of(dense("roomy", 512 << 20));
  EXPECT_EQ(bytes_of(dense("tight", 32'000'000)), expected);
}

TEST_F(DenseShuffle, AFullDiskIsAClearErrorAndIsContinuedOnceThereIsRoom) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  // Below the 18 MB of all cells, so that the temporary file cannot hold them, and above a shard.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{5'000'000, 5'000'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      convert_to_shards(dense("full", 32'000'000));
      ::_exit(0);
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool is_clear =
          text.find("--resume") != std::string::npos && text.find("shuffling") != std::string::npos;
      const bool is_kind = error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kNoSpace;
      ::_exit(is_clear && is_kind ? 3 : 4);
    } catch (...) {
      ::_exit(5);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.file("full")))
    EXPECT_FALSE(io::is_temp_name(entry.path().filename().string())) << entry.path();
  EXPECT_EQ(bytes_of(dense("full", 32'000'000, ExistingTarget::kResume)),
            bytes_of(dense("whole", 512 << 20)));
}

TEST_F(Shuffle, AStoppedConversionIsContinuedToTheSameBytes) {
  const auto expected = bytes_of(options("whole"));
  for (const std::string phase : {"shuffling cells", "writing shards"}) {
    const std::string name = "stopped in " + phase;
    std::stop_source stop;
    ConvertOptions first = options(name);
    first.stop = stop.get_token();
    first.progress = [&](const Progress& p) {
      if (p.phase == phase && p.done >= 1300) stop.request_stop();
    };
    EXPECT_THAT(error_of(first, ErrorKind::kCancelled), HasSubstr("--resume"));
    ConvertOptions other = options(name, ExistingTarget::kResume);
    other.seed = 6;
    error_of(other, ErrorKind::kInvalidArgument);
    other.shuffle = false;
    error_of(other, ErrorKind::kInvalidArgument);
    EXPECT_EQ(bytes_of(options(name, ExistingTarget::kResume)), expected) << name;
  }
}

TEST_F(Shuffle, AFinishedShuffleIsNotTakenForAnother) {
  convert_to_shards(options("out"));
  EXPECT_EQ(convert_to_shards(options("out", ExistingTarget::kResume)).n_shards_resumed, 5);
  ConvertOptions other = options("out", ExistingTarget::kResume);
  other.seed = 6;
  error_of(other, ErrorKind::kAlreadyExists);
  other.shuffle = false;
  error_of(other, ErrorKind::kAlreadyExists);
}

TEST_F(Shuffle, AKilledWriterIsContinuedToTheSameBytes) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  const auto expected = bytes_of(options("whole"));
  const ConvertOptions killed = options("killed", ExistingTarget::kResume);
  for (const auto& [phase, n_done] : {std::pair{"shuffling", 100},
                                      {"shuffling", 1500},
                                      {"writing", 1},
                                      {"", 1},
                                      {"writing", 700},
                                      {"writing", 2000}}) {
    EXPECT_EQ(testing::exit_code_when_killed(killed, n_done, phase), 100 + SIGKILL) << phase;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.file("killed")))
      EXPECT_FALSE(entry.path().filename().string().starts_with("shuffled")) << entry.path();
    if (n_done != 1 && n_done != 2000) continue;
    EXPECT_EQ(bytes_of(killed), expected) << phase << n_done;
    std::filesystem::remove_all(dir_.file("killed"));
  }
}

// Position of one cell over many seeds, where the order is a table and where it is a network.
// 2 tests: false-alarm rate 6e-7.
TEST(CellOrder, ACellIsEquallyLikelyEverywhere) {
  for (const std::int64_t n : {500, 100'000}) {
    std::vector<std::int64_t> counts(50);
    for (std::uint64_t seed = 0; seed < 5000; ++seed)
      ++counts[static_cast<std::size_t>(CellOrder(seed, n).position_of(n / 3) * 50 / n)];
    EXPECT_LT(testing::chi_square(counts, 100), testing::chi_square_limit(49)) << n;
  }
}

TEST(BucketStore, GivesBackWhatWasAppendedFromMemoryAndFile) {
  const TempDir dir;
  for (const std::int64_t memory : {0, 100'000, 10'000'000}) {
    constexpr std::int64_t kBuckets = 7;
    BucketStore store(dir.path(), kBuckets, memory);
    std::vector<std::vector<std::byte>> expected(kBuckets);
    std::uint64_t state = 3;
    for (int i = 0; i < 400; ++i) {
      const auto bucket = static_cast<std::int64_t>(testing::next_random(state) % (kBuckets - 1));
      std::vector<std::byte> bytes(testing::next_random(state) % 5000);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(testing::next_random(state));
      store.append(bucket, bytes);
      expected[bucket].insert(expected[bucket].end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(store.spilled_bytes() > 0, memory < 1'000'000) << memory;
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
    for (std::int64_t bucket = 0; bucket < kBuckets; ++bucket) {
      EXPECT_EQ(store.bytes(bucket), std::ssize(expected[bucket]));
      EXPECT_EQ(store.take(bucket), expected[bucket]);
      EXPECT_EQ(store.bytes(bucket), 0);
    }
  }
}

TEST(BucketStore, ADirectoryThatIsNotThereIsAnError) {
  const testing::TempDir dir;
  std::filesystem::create_directory(dir.file("gone"));
  BucketStore store(dir.file("gone"), 1, 0);
  std::filesystem::remove(dir.file("gone"));
  const std::vector<std::byte> bytes(1 << 20);
  EXPECT_THROW(store.append(0, bytes), Error);
}

}  // namespace
}  // namespace cellfeed::convert
