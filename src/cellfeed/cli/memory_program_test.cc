// The whole program over a file system that is not the operating system's: nothing opens, lists or
// makes a path by itself, and rows are read where nothing is mapped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/testing/drain.h"
#include "cellfeed/testing/faulty_byte_source.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/own_scratch.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/row_entries.h"
#include "cellfeed/testing/run_program.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::cli {
namespace {

using cellfeed::testing::column_texts;
using cellfeed::testing::MemoryPlace;
using cellfeed::testing::Outcome;
using cellfeed::testing::read_back;
using cellfeed::testing::ReadBack;
using cellfeed::testing::run;
using cellfeed::testing::SmallAtlas;
using cellfeed::testing::TempDir;
using ::testing::HasSubstr;

void expect_equal(const ReadBack& left, const ReadBack& right) {
  EXPECT_EQ(left.rows, right.rows);
  EXPECT_EQ(left.genes, right.genes);
  for (const std::string& name : right.obs->ColumnNames())
    EXPECT_EQ(column_texts(*left.obs, name), column_texts(*right.obs, name)) << name;
}

void expect_success(const std::vector<std::string>& arguments) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 0) << ::testing::PrintToString(arguments) << outcome.err;
}

// What a model is trained on: each cell of a true random epoch with its entries, in order.
std::vector<std::pair<std::int64_t, cellfeed::testing::RowEntries>> epoch_of(
    const std::string& path) {
  const auto cells = collection::Collection::open({path}, {});
  const auto order = std::make_shared<sampling::BlockShuffling>(cells->n_rows(), 1);
  loader::BatchIterator iterator(loader::make_loader_core(cells, {.threads = 2}),
                                 {order, {.batch_size = 16, .fetch_factor = 2}, 1, 3});
  std::vector<std::pair<std::int64_t, cellfeed::testing::RowEntries>> epoch;
  for (const auto& loaded : cellfeed::testing::drain(iterator)) {
    const matrix::Batch& batch = loaded->batch();
    for (std::size_t i = 0; i < batch.rows.size(); ++i)
      epoch.emplace_back(batch.rows[i],
                         cellfeed::testing::row_of(std::get<matrix::CsrBlock>(batch.x),
                                                   static_cast<std::int64_t>(i)));
  }
  return epoch;
}

class MemoryProgram : public ::testing::Test {
 protected:
  MemoryProgram() {
    const SmallAtlas atlas({.n_cells = 200, .n_genes = 60});
    input_ = place_.take(atlas.write(local_.file("a.h5ad")));
  }

  // Those of the same conversion.
  void expect_bytes_of_disk() const {
    const io::Directory directory(local_.file("shards"));
    EXPECT_EQ(io::Directory(place_.file("shards")).names(), directory.names());
    for (const std::string& name : directory.names()) {
      const auto ours = place_.files().content(place_.file("shards/" + name));
      ASSERT_TRUE(ours) << name;
      std::vector<std::byte> theirs(static_cast<std::size_t>(*directory.file_bytes(name)));
      io::open_file(directory.path_of(name))->read(0, theirs);
      EXPECT_EQ(*ours, theirs) << name;
    }
  }

  TempDir local_;
  MemoryPlace place_;
  std::string input_;
};

TEST_F(MemoryProgram, ShardsVerifiesReadsAndExports) {
  const std::string shards = place_.file("shards");
  expect_success({"shard", place_.file("*.h5ad"), "--output-dir", shards, "--shard-size", "80"});
  expect_success({"verify", shards});
  expect_success({"info", shards});
  expect_success({"bench", shards, "--seconds", "0.1", "--batch-size", "16"});
  expect_success({"bench", input_, "--seconds", "0.1", "--batch-size", "16"});
  expect_success({"export", shards, "--output", place_.file("back.h5ad")});
  expect_equal(read_back(place_.file("back.h5ad")), read_back(input_));
  expect_equal(read_back(shards), read_back(input_));
}

TEST_F(MemoryProgram, TrainsOnTheBatchesOfADisk) {
  for (const std::string& root : {local_.file("shards"), place_.file("shards")})
    expect_success({"shard", input_, "--output-dir", root, "--shard-size", "80"});
  const auto expected = epoch_of(local_.file("a.h5ad"));
  EXPECT_EQ(expected.size(), 200u);
  for (const std::string& path : {local_.file("shards"), place_.file("shards"), input_})
    EXPECT_EQ(epoch_of(path), expected) << path;
}

TEST_F(MemoryProgram, WritesTheBytesThatItWritesToADisk) {
  expect_success({"shard", local_.file("a.h5ad"), "--output-dir", local_.file("shards"),
                  "--shard-size", "80", "--shuffle"});
  expect_success({"shard", local_.file("a.h5ad"), "--output-dir", place_.file("shards"),
                  "--shard-size", "80", "--shuffle"});
  expect_bytes_of_disk();
}

TEST_F(MemoryProgram, AppendsTheBytesThatItAppendsOnADisk) {
  const std::string more =
      SmallAtlas({.n_cells = 90, .n_genes = 60, .seed = 2}).write(local_.file("b.h5ad"));
  for (const std::string& shards : {local_.file("shards"), place_.file("shards")}) {
    expect_success({"shard", local_.file("a.h5ad"), "--output-dir", shards, "--shard-size", "80"});
    expect_success({"append", more, "--to", shards});
    expect_success({"verify", shards});
    EXPECT_EQ(run({"append", more, "--to", shards}).code, 1);
    expect_success({"append", more, "--to", shards, "--resume"});
  }
  expect_bytes_of_disk();
  EXPECT_EQ(read_back(place_.file("shards")).rows.size(), 290u);
  SmallAtlas({.n_cells = 30, .n_genes = 60, .seed = 3}).write(local_.file("c.h5ad"));
  expect_success({"append", place_.take(local_.file("c.h5ad")), "--to", place_.file("shards")});
  EXPECT_EQ(read_back(place_.file("shards")).rows.size(), 320u);
}

TEST_F(MemoryProgram, WhatIsDamagedIsFound) {
  const std::string shards = place_.file("shards");
  expect_success({"shard", input_, "--output-dir", shards, "--shard-size", "80"});
  for (const std::string& path : place_.files().paths()) {
    if (!path.starts_with(shards + "/")) continue;
    const auto whole = place_.files().content(path);
    std::vector<std::byte> damaged = *whole;
    damaged[damaged.size() / 2] ^= std::byte{4};
    place_.files().put(path, damaged);
    EXPECT_EQ(run({"verify", shards}).code, 1) << path;
    place_.files().put(path, *whole);
  }
  expect_success({"verify", shards});
  EXPECT_EQ(run({"shard", input_, "--output-dir", shards}).code, 1);
  const Outcome absent = run({"info", place_.file("aa.h5ad")});
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.err, HasSubstr("did you mean 'a.h5ad'?"));
}

TEST_F(MemoryProgram, BuildsSeriesOfAndToFilesThatLieElsewhere) {
  const cellfeed::testing::OwnScratch scratch;
  std::string text = "t,v,w\n";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("{},{},{}\n", i, i % 91, 0.5 * i);
  const auto bytes = std::as_bytes(std::span(text));
  place_.files().put(place_.file("in/a.csv"), {bytes.begin(), bytes.end()});
  io::write_small_file(local_.file("in/a.csv"), text);
  const auto build = [&](const std::string& input, const std::string& out) {
    return run({"series", "build", input, "--output-dir", local_.file(out), "--time", "t"});
  };
  EXPECT_EQ(build(local_.file("in"), "here").code, 0);
  EXPECT_EQ(build(place_.file("in"), "folder").code, 0);
  EXPECT_EQ(build(place_.file("in/*.csv"), "glob").code, 0);
  for (const char* name : {"all_features.mmap", "time.mmap", "entities.arrow", "scaler.json"})
    for (const char* out : {"folder/", "glob/"})
      EXPECT_EQ(io::read_small_file(local_.file(std::string(out) + name), 1 << 24),
                io::read_small_file(local_.file(std::string("here/") + name), 1 << 24))
          << name;
  // The rows are there already.
  EXPECT_EQ(run({"series", "append", local_.file("folder"), place_.file("in")}).code, 1);
  const Outcome absent = build(place_.file("in/b.csv"), "absent");
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.err, HasSubstr("there is no such file"));
  expect_success(
      {"series", "build", local_.file("in"), "--output-dir", place_.file("out"), "--time", "t"});
  expect_success({"series", "verify", place_.file("out")});
  for (const char* name : {"all_features.mmap", "time.mmap", "entities.arrow", "scaler.json"})
    EXPECT_EQ(io::read_small_file(place_.file(std::string("out/") + name), 1 << 24),
              io::read_small_file(local_.file(std::string("here/") + name), 1 << 24))
        << name;
}

TEST_F(MemoryProgram, AnUnknownSchemeIsRefusedWhereItIsWrittenToToo) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"info", "ftp://host/a.h5ad"},
           {"shard", "ftp://host/a.h5ad", "--output-dir", local_.file("out")},
           {"shard", input_, "--output-dir", "ftp://host/out"},
           {"export", input_, "--output", "ftp://host/out.h5ad"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, HasSubstr("no file system is known for this path")) << outcome.err;
  }
}

// Reads that fail, at whichever: the right rows, or an error that names the file.
TEST(MemoryFaults, ReadsThatFailAreNamed) {
  const TempDir local;
  const std::string written =
      SmallAtlas({.n_cells = 60, .n_genes = 20}).write(local.file("a.h5ad"));
  const auto expected = read_back(written);
  int n_failed = 0;
  for (int fault = 0; fault < 60; ++fault) {
    const MemoryPlace place([fault](std::unique_ptr<io::ByteSource> source) {
      return std::make_unique<cellfeed::testing::FaultyByteSource>(
          std::shared_ptr<const io::ByteSource>(std::move(source)),
          cellfeed::testing::Faults{.fail_at_read = fault});
    });
    const std::string path = place.take(written);
    try {
      expect_equal(read_back(path), expected);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
      ++n_failed;
    }
  }
  EXPECT_GT(n_failed, 5);
}

}  // namespace
}  // namespace cellfeed::cli
